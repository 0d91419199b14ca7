"""Jobs get instances of MIG, and a card makes room for a large one."""

from hivecore.dra import DraCluster
from hivecore.dra.mig import mig_claim, mig_instances, mig_moves, mig_objects
from hivecore.scheduler import Job, Role, Scheduler, Start
from hivecore.verify import verify_actions


def main() -> None:
    """Let jobs ask for profiles, end one of them, and plan moves."""
    cards = DraCluster()
    cards.update(*mig_objects("n1", "A100-40GB", cards=1))
    scheduler = Scheduler(claims=cards)
    wishes = {"eval": {"2g.10gb": 1}, "serve": {"2g.10gb": 1}, "tune": {"1g.5gb": 1}}
    jobs = {
        name: Job(name, "ml", [Role("pod", claims=[mig_claim("mig", profiles)])])
        for name, profiles in wishes.items()
    }
    for job in jobs.values():
        scheduler.submit(job, now=0.0)
    before = scheduler.copy()
    actions = scheduler.decide(now=0.0)
    verify_actions(actions, jobs, before)  # plain Python, apart from the kernel
    for action in actions:
        if isinstance(action, Start):
            ((_, allocation),) = action.pods[0].claims
            devices = [result["device"] for result in allocation["devices"]["results"]]
            print(f"{action.job}: {', '.join(devices)}")
    scheduler.finish("eval", now=60.0)
    plan = mig_moves("A100-40GB", mig_instances(scheduler.claims, "n1"), "4g.20gb")
    for instance, start in plan.moves if plan else ():
        print(f"for a 4g.20gb, {instance.owner} moves from {instance.start} to {start}")


if __name__ == "__main__":
    main()
