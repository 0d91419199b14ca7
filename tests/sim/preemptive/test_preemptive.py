from functools import partial
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest
from profiles import seeds
from sim.preemptive.second_jobs import DATA, GPU, NET, PAIR, jobs_of

from hivecore.reference import interleaving as twin
from hivecore.reference.muri_matching import muri_groups
from hivecore.sim.preemptive import MuriOptions, job_figures, schedule
from hivecore.sim.preemptive.grouping import Bucket, group_neighbours, matched_groups
from hivecore.sim.preemptive.interleaving import INTERFERENCE, IterationTimes
from hivecore.sim.preemptive.placement import place
from hivecore.sim.preemptive.training import close, earliest_completion


def ends(jobs, policy, nodes=1, **options):
    return schedule(jobs, policy, nodes, MuriOptions(**options)).end


# --- placement ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "gpus", "left"),
    [
        ([8, 4], 4, [4, 4]),  # the first node, not the fullest
        ([3, 8], 4, [3, 4]),
        ([8, 7, 8], 16, [0, 7, 0]),
        ([4, 8], 12, [0, 0]),
        ([8, 8, 4], 12, [0, 4, 4]),
    ],
)
def test_a_job_gets_the_first_nodes_that_can_hold_it(free, gpus, left):
    assert place(free, gpus)
    assert free == left


@pytest.mark.parametrize(("free", "gpus"), [([3, 3], 4), ([7, 8], 16), ([3, 8], 12), ([8], 12)])
def test_a_job_that_does_not_fit_takes_nothing(free, gpus):
    before = free.copy()
    assert not place(free, gpus)
    assert free == before


# --- events ------------------------------------------------------------------------------------


def test_each_interval_costs_a_restart_but_for_the_one_that_ends_the_job():
    # At 50 the first job has done 40, at 70 another 10; at 75 the interval is too short for any.
    jobs = jobs_of((0, 4, 100), (50, 4, 20), (75, 8, 900), restart=10.0)
    assert ends(jobs, "srtf") == [125, 70, 1025]


def test_nothing_restarts_under_fifo():
    jobs = jobs_of((0, 4, 100), (50, 4, 20), (60, 8, 10), (61, 4, 1), restart=10.0)
    assert ends(jobs, "fifo") == [100, 70, 110, 111]


def test_first_in_first_out_keeps_jobs_on_their_nodes():
    # A job of 5 on each node leaves 6 free GPUs, but no node for the job of 6.
    jobs = jobs_of((0, 5, 10), (0, 5, 20), (0, 6, 5), (0, 1, 1))
    assert ends(jobs, "fifo", nodes=2) == [10, 20, 15, 11]


def test_the_shortest_job_goes_first_and_others_fill_the_gaps():
    jobs = jobs_of((0, 8, 100), (10, 6, 20), (20, 4, 5), (20, 2, 50))
    outcome = schedule(jobs, "srtf", nodes=1)
    # 10: the second preempts; 20: the third preempts it, the fourth fits beside; 25: both shorter.
    assert outcome.end == [160, 35, 25, 70]
    assert outcome.start == [0, 10, 20, 20]
    assert outcome.held == [100, 20, 5, 50]
    assert outcome.preemptions == 2


def test_service_counts_gpus():
    jobs = jobs_of((0, 8, 10), (0, 1, 20))
    assert ends(jobs, "srtf") == [10, 30]
    assert ends(jobs, "srsf") == [30, 20]


@pytest.mark.parametrize(("later", "end", "events"), [(5e-4, 1e6, 2), (2e-3, 1e6 + 2e-3, 3)])
def test_completions_at_nearly_the_same_time_are_one(later, end, events):
    outcome = schedule(jobs_of((0, 4, 1e6), (0, 4, 1e6 + later)), "srtf", nodes=1)
    assert outcome.end == [1e6, end]
    assert outcome.events == events


def merged_one_by_one(times):
    """The rule to the letter: all events are built, then sorted."""
    built = []
    for position, end in enumerate(times):
        for event in built:
            if close(end, event[0]):
                event[1].append(position)
                break
        else:
            built.append((end, [position]))
    return sorted(built, key=lambda event: event[0])[0]


@pytest.mark.parametrize("seed", seeds(50))
def test_only_completions_near_the_first_are_looked_at(seed):
    random = np.random.default_rng(seed)
    times = (1e6 + random.integers(0, 40, 30) * random.choice([3e-4, 1e-3, 1.0])).tolist()
    assert earliest_completion(times) == merged_one_by_one(times)


def test_an_arrival_and_a_completion_meet_only_if_equal():
    jobs = jobs_of((0, 8, 100), (100, 8, 10), (110.00005, 8, 10))
    assert schedule(jobs, "srtf", nodes=1).events == 5


def test_under_muri_they_meet_at_the_arrival_if_they_are_near():
    outcome = schedule(jobs_of((0, 8, 100.00005), (100, 8, 10)), "muri-s", nodes=1)
    assert outcome.end == [100, 110]
    assert outcome.events == 3


# --- Tiresias ----------------------------------------------------------------------------------


def test_a_job_sinks_when_it_has_used_enough_gpu_seconds():
    # ceil(3250 / 8) = 407 and 7200 / 8 = 900.
    outcome = schedule(jobs_of((0, 8, 1000)), "tiresias", nodes=1)
    assert (outcome.end, outcome.events) == ([1000], 4)
    assert ends(jobs_of((0, 8, 1000), restart=10.0), "tiresias") == [1020]


def test_a_job_of_a_higher_queue_takes_over_when_the_running_one_sinks():
    outcome = schedule(jobs_of((0, 8, 1000), (100, 8, 100)), "tiresias", nodes=1)
    assert outcome.end == [1100, 507]
    assert outcome.held == [1000, 100]
    assert outcome.preemptions == 1


def test_within_a_queue_running_jobs_go_before_waiting_ones():
    # The job of 8 waits behind the one of 4; the other job of 4 comes later and runs before it.
    assert ends(jobs_of((0, 4, 100), (1, 8, 10), (2, 4, 150)), "tiresias") == [100, 162, 152]


def test_tiresias_counts_gpus_and_not_nodes():
    jobs = jobs_of((0, 5, 10), (0, 5, 10), (0, 6, 20))
    assert ends(jobs, "tiresias", nodes=2) == [10, 10, 20]
    assert ends(jobs, "srtf", nodes=2) == [10, 10, 30]


# --- iteration times ---------------------------------------------------------------------------


def times_of(stages, worst=False, interference=INTERFERENCE):
    return IterationTimes(stages, [1.0] * len(stages), worst, interference)


def test_jobs_on_different_resources_do_not_wait_for_each_other():
    assert times_of([DATA, GPU, NET]).of([0]) == 1.0
    assert times_of([DATA, GPU]).of([0, 1]) == 1.0 * PAIR
    assert times_of([GPU, GPU]).of([0, 1]) == 2.0 * PAIR
    assert times_of([GPU, GPU], interference=(1.0,) * 4).of([0, 1]) == 2.0


def test_the_order_matters_only_to_the_choice_among_orders():
    stages = [(0.7, 0.2, 0.1), (0.1, 0.6, 0.2), (0.2, 0.1, 0.9)]
    best, worst = times_of(stages), times_of(stages, worst=True)
    for jobs in range(2, 5):
        for group in combinations_with_replacement(range(3), jobs):
            assert len({times_of(stages).of(order) for order in permutations(group)}) == 1
            assert best.of(group) <= worst.of(group)
    assert worst.of([0, 1, 2]) == pytest.approx(2.2 * INTERFERENCE[2])


# --- grouping ----------------------------------------------------------------------------------


def grouped(mate, capacity, buckets=None):
    """Groups of jobs 0, 1, ... by a matcher that always answers the same."""
    stages = [GPU] * 8
    rounds = partial(
        twin.group_jobs,
        matcher=lambda weights: mate[: len(weights)],
        model="artifact",
        merge_order="index",
    )
    group = matched_groups(stages, 2, False, (1.0,) * 4, rounds)
    return group(buckets or [Bucket(8, list(range(len(mate))))], capacity)


def test_pairs_are_merged_only_while_gpus_are_lacking():
    assert grouped([2, 3, 0, 1], 16) == [[0, 2], [1, 3]]
    assert grouped([2, 3, 0, 1], 24) == [[1], [0, 2], [3]]
    assert grouped([1, 0, -1], 24) == [[0], [1], [2]]


@pytest.mark.parametrize("rounds", [None, muri_groups])
def test_a_matching_pairs_what_goes_together_and_a_second_round_makes_fours(rounds):
    stages = [GPU, GPU, DATA, DATA]
    bucket = Bucket(8, [0, 1, 2, 3])
    pairs = matched_groups(stages, 2, False, INTERFERENCE, rounds)([bucket], 16)
    assert sorted(sorted(stages[job] for job in pair) for pair in pairs) == [[GPU, DATA]] * 2
    fours = matched_groups(stages, 4, False, INTERFERENCE, rounds)([bucket], 8)
    assert [len(group) for group in fours] == [4]


def test_demand_is_that_of_all_buckets():
    small, large = Bucket(4, [0, 1]), Bucket(8, [2, 3])
    assert grouped([1, 0], 16, [small, large]) == [[0, 1], [2, 3]]
    assert grouped([1, 0], 16, [large, small]) == [[2, 3], [0], [1]]


def test_neighbours_that_are_not_needed_stay_alone_before_their_group():
    bucket = Bucket(8, [5, 6, 7, 8])
    assert group_neighbours(4, [bucket], 16) == [[8], [5, 6, 7]]
    assert group_neighbours(4, [bucket, Bucket(4, [1, 2])], 8) == [[5, 6, 7, 8], [1, 2]]


# --- Muri --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["muri-s", "muri-l"])
def test_jobs_that_fit_together_share_gpus(policy):
    jobs = jobs_of((0, 8, 100, DATA), (0, 8, 100, GPU))
    assert ends(jobs, policy) == [100 * PAIR] * 2
    assert ends(jobs, policy, interference=False) == [100] * 2
    assert ends(jobs, policy, largest=1)[0] == 100


def test_a_job_that_ends_leaves_the_others_of_its_group_alone():
    first = 100 * PAIR
    jobs = jobs_of((0, 8, 100, DATA), (0, 8, 200, GPU))
    assert ends(jobs, "muri-s") == pytest.approx([first, first + 100])
    # In the first interval the second job loses the restart times of both.
    jobs = jobs_of((0, 8, 100, DATA, 10.0), (0, 8, 200, GPU, 20.0))
    left = 200 - (first - 30) / PAIR
    assert ends(jobs, "muri-s") == pytest.approx([first, first + left])


def test_autopack_splits_what_is_slower_than_one_after_another():
    jobs = jobs_of((0, 8, 100), (0, 8, 110))
    assert ends(jobs, "muri-s") == [100, 210]
    shared = 100 * 2 * PAIR
    assert ends(jobs, "muri-s", autopack=False) == pytest.approx([shared, shared + 10])
    # Not slower, so not split.
    assert ends(jobs, "muri-s", interference=False) == [200, 210]


def test_the_worst_order_is_never_better():
    stages = [(0.5, 0.3, 0.2), (0.2, 0.5, 0.3), (0.1, 0.1, 0.8), (0.3, 0.3, 0.4)]
    jobs = jobs_of(*((0, 8, 100 + 10 * i, stage) for i, stage in enumerate(stages)))
    best = ends(jobs, "muri-s", autopack=False)
    assert max(best) < max(ends(jobs, "muri-s", autopack=False, worst_order=True))


def test_without_contention_muri_runs_every_job_alone():
    jobs = jobs_of((0, 4, 100, DATA), (0, 4, 50, GPU))
    assert ends(jobs, "muri-s") == ends(jobs, "srsf") == [100, 50]


def test_groups_of_unmatched_jobs_have_their_own_factor():
    jobs = jobs_of(*((0, 8, 100, entry) for entry in (DATA, DATA, GPU, NET)))
    free = ends(jobs, "muri-s", matching=False, interference=False, autopack=False)
    full = ends(jobs, "muri-s", matching=False, autopack=False)
    assert full == pytest.approx([end * 1.3 / 1.015 for end in free])


def test_large_jobs_are_placed_first_and_others_where_room_is_left():
    # The job of 16 GPUs has the least service left and takes both nodes; the others run after it.
    jobs = jobs_of((0, 4, 100), (0, 16, 10), (0, 8, 60))
    assert ends(jobs, "muri-s", nodes=2) == [110, 10, 70]


@pytest.mark.parametrize("policy", ["muri-exact-s", "muri-exact-l"])
def test_the_exact_forms_may_skip_a_candidate_that_goes_badly_with_the_first(policy):
    jobs = jobs_of((0, 8, 100, GPU), (0, 8, 110, GPU), (0, 8, 120, DATA))
    pair = {"interference": False, "largest": 2}
    freely = ends(jobs, policy, candidates=(1, 3), **pair)
    assert freely[0] == 100
    assert freely[2] == 120
    assert freely[1] > 200
    assert ends(jobs, policy, candidates=(2, 2), **pair)[2] > 120


def test_the_exact_forms_run_every_job_alone_if_there_are_gpus_enough():
    jobs = jobs_of((0, 4, 100, DATA), (0, 4, 50, GPU))
    assert ends(jobs, "muri-exact-s") == [100, 50]


# --- figures and misuse ------------------------------------------------------------------------


def test_figures_count_from_submission():
    jobs = jobs_of((10, 8, 100), (20, 8, 30))
    figures = job_figures(jobs, schedule(jobs, "fifo", nodes=1))
    assert figures.mean_completion == (100 + 120) / 2
    assert figures.p99_completion == pytest.approx(100 + 0.99 * 20)
    assert (figures.makespan, figures.mean_queueing, figures.preemptions) == (140, 45, 0)


def test_what_cannot_be_scheduled_is_named():
    jobs = jobs_of((0, 16, 1))
    with pytest.raises(ValueError, match="a job of 16 GPUs does not fit on 1 node"):
        schedule(jobs, "srtf", nodes=1)
    with pytest.raises(ValueError, match="policy must be one of fifo, srtf, srsf"):
        schedule(jobs, "sjf")
    with pytest.raises(ValueError, match="largest must be from 1 to 4, not 5"):
        MuriOptions(largest=5)
    for wrong in ((0, 3), (3, 2)):
        with pytest.raises(ValueError, match="candidates must be two rising numbers from 1 on"):
            MuriOptions(candidates=wrong)
