"""A cluster with Kueue, as kubectl has dumped it: would a job start, and which jobs would leave?"""

from pathlib import Path

from hivecore.interop.cluster_dump import ClusterDump
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Job, Preempt, Role, Start

dump = ClusterDump.read((Path(__file__).parent / "kueue_dump.yaml").read_text("utf-8"))
for remark in dump.remarks:
    print("not the same here:", remark)

scheduler = SchedulerSpec.of_yaml(dump.text).scheduler(immediate=True)
dump.fill(scheduler)  # what runs in the cluster runs here, what waits is submitted
print("runs:", ", ".join(f"{job.name} ({job.quota}, {job.gpus} GPUs)" for job in dump.running))

for gpus in (4, 5, 7):
    with scheduler.what_if() as branch:
        branch.submit(Job("train", "vision", [Role("worker", 2, gpus=gpus)]), now=1.0)
        actions = branch.decide(now=1.0)
        starts = any(isinstance(action, Start) and action.job == "train" for action in actions)
        leave = [action.job for action in actions if isinstance(action, Preempt)]
        why = branch.explain("train").reason if "train" in branch else actions[0].reason
        what = f"starts, {leave or 'no job'} would leave" if starts else f"does not start: {why}"
        print(f"2 pods of {gpus} GPUs: {what}")
