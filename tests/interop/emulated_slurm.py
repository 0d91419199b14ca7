"""A real Slurm on this machine: a controller, and daemons that emulate nodes with files as GPUs."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scontrol")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]

CONFIGURATION = """\
ClusterName=emulated
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CommunicationParameters=NoInAddrAny
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
SchedulerType=sched/{scheduling}
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
TopologyPlugin=topology/tree
GresTypes=gpu
MpiDefault=none
{lines}
PartitionName=main Nodes={nodes} Default=YES MaxTime=60 State=UP
PartitionName=spare Nodes={nodes} MaxTime=60 State=UP
"""


class EmulatedSlurm:
    """Starts all of it in a folder; `close` ends the processes that it has started.

    ``more`` are lines at the end of slurm.conf; ``models`` is the type of the GPUs by node.
    """

    def __init__(
        self,
        folder,
        *,
        count=16,
        gpus=8,
        typed=True,
        scheduling="builtin",
        plugin="",
        more="",
        models=None,
    ):
        self.folder, self.processes = folder, {}
        self.nodes = [f"n{number:02}" for number in range(1, count + 1)]
        ports = iter(_free_ports(count + 1))
        kinds = "".join(f",gpu:i{gpu}:1" for gpu in range(gpus))[1:] if typed else f"gpu:{gpus}"
        host = socket.gethostname().split(".")[0]
        control = next(ports)
        for name in (*(f"spool.{node}" for node in self.nodes), "state"):
            (folder / name).mkdir()
        types, files = [], [folder / f"gpu{gpu}" for gpu in range(gpus)]
        for gpu, file in enumerate(files):
            file.touch()
            types.append(f"Name=gpu {f'Type=i{gpu} ' if typed else ''}File={file}\n")
        for node, model in (models or {}).items():
            types += [f"NodeName={node} Name=gpu Type={model} File={file}\n" for file in files]
        (folder / "gres.conf").write_text("".join(types[gpus:] if models else types))
        leaves = {f"leaf{at // 4}": self.nodes[at : at + 4] for at in range(0, count, 4)}
        switches = [f"SwitchName={name} Nodes={','.join(its)}\n" for name, its in leaves.items()]
        switches.append(f"SwitchName=spine Switches={','.join(leaves)}\n")
        (folder / "topology.conf").write_text("".join(switches))
        lines = [
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={next(ports)} CPUs=64 "
            f"RealMemory=1000 Gres={f'gpu:{models[node]}:{gpus}' if models else kinds}"
            for node in self.nodes
        ]
        text = CONFIGURATION.format(
            host=host,
            port=control,
            user=getpass.getuser(),
            folder=folder,
            scheduling=scheduling,
            lines="\n".join(lines),
            nodes=f"n[01-{count:02}]",
        )
        (folder / "slurm.conf").write_text(text + more)
        if plugin:
            (folder / "job_submit.lua").write_text(plugin)
            with (folder / "slurm.conf").open("a") as file:
                file.write("JobSubmitPlugins=lua\n")
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        (folder / "key").write_bytes(os.urandom(128))
        (folder / "key").chmod(0o600)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self):
        items = [f"--{name}={self.folder / file}" for name, file in _MUNGE.items()]
        self.start("munged", "munged", "--foreground", "--force", *items)
        self.await_((self.folder / "munge").exists, "munged")
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self.await_(self._are_all_idle, "nodes")

    def _are_all_idle(self):
        states = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%t").split()
        return states == ["idle"] * len(self.nodes)

    def start_controller(self):
        self.start("slurmctld", "slurmctld", "-D")
        self.await_(lambda: self.run("squeue", "-h", check=True) is not None, "slurmctld")

    def start_node(self, node):
        self.start(node, "slurmd", "-D", "-N", node)

    def start(self, name, *command):
        with (self.folder / f"{name}.out").open("ab") as out:
            process = subprocess.Popen(command, env=self.environment, stdout=out, stderr=out)
        self.processes[name] = process

    def end(self, name, by=signal.SIGKILL):
        process = self.processes.pop(name)
        process.send_signal(by)
        process.wait()

    def close(self):
        if "slurmctld" in self.processes:
            self._end_jobs()
        for name in reversed(list(self.processes)):
            self.end(name)
        for process in self._left():
            os.kill(process, signal.SIGKILL)

    def _left(self):
        """Processes of jobs whose slurmd was ended, which have no parent any more."""
        own = f"SLURM_CONF={self.environment['SLURM_CONF']}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                name = (folder / "cmdline").read_bytes()
                given = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended
            if name.startswith(b"slurmstepd") and own in given:
                yield int(folder.name)

    def _end_jobs(self, seconds=10):
        """A job that is left would wait for its node for ever, as a process without a parent."""
        end = time.monotonic() + seconds
        while self.run("squeue", "-h") and time.monotonic() < end:
            self.run("scancel", "-u", getpass.getuser())
            time.sleep(0.5)

    def run(self, *command, check=False, text=None, user=None):
        done = subprocess.run(
            command,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd="/",
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        if check and done.returncode:
            raise OSError(done.stderr)
        return done.stdout

    def await_(self, happened, what, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if happened():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"{what}, see the logs in {self.folder}")


_MUNGE = {
    "socket": "munge",
    "key-file": "key",
    "pid-file": "munged.pid",
    "log-file": "munged.log",
    "seed-file": "munged.seed",
}


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [socket.getsockname()[1] for socket in sockets]
    finally:
        for each in sockets:
            each.close()
