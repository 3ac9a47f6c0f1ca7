"""Jobs that are killed at random moments or have no room, and what is wrong afterwards."""

import gc
import pathlib

from keras_xd_tests.faults import checks, children, disks

AGAIN = 0.25  # how often what goes on is killed once more


class Faults:
    """Runs jobs that are killed or have no room.

    Args:
        seed: an integer.
        folder: an empty folder to work in.
        jobs: dictionary of jobs by name.
        mount: whether small disks are mounted; else the size of files is limited.
    """

    def __init__(self, seed, folder, jobs, mount=True):
        self.seed, self.folder = seed, pathlib.Path(folder)
        self.jobs, self.references, self.needed = jobs, {}, {}
        self.disk = disks.SmallDisk if mount else disks.SizeLimit
        self.number = 0
        # What is imported is not looked through again in each copy: KerasTuner asks for each model.
        gc.collect()
        gc.freeze()

    def kill(self, name, rng):
        """Kill a job at a random moment, resume it; return what was seen."""
        job = self.jobs[name]
        reference = self.reference(name)
        found = {"kills": 0, "left": 0, "left_in_the_end": 0, "findings": []}
        if hasattr(job, "victims"):
            return {**found, **self._kill_one_of_several(job, reference, rng)}
        share, again, share_again = rng.random(3)
        outcome = None
        while outcome is None or not (outcome.killed or outcome.status):
            if outcome is not None:  # it ended before the moment came: this machine is faster now
                reference.seconds = min(reference.seconds, outcome.seconds)
            folder = self._new_folder()
            outcome = children.run(job.run, folder, kill_after=share * reference.seconds)
        lines = []
        while outcome.killed:
            lines += outcome.lines
            found["kills"] += 1
            self._check(job, folder, lines, reference, found)
            after = share_again * reference.seconds if again < AGAIN else None
            again = 1.0
            outcome = children.run(job.run, folder, kill_after=after)
            found["findings"] += self._of_resumed(job, lines, outcome)
        self._end(job, folder, outcome, reference, found)
        return found

    def fill(self, name, rng):
        """Give a job too small a disk, then room; return what was seen."""
        job = self.jobs[name]
        reference = self.reference(name)
        found = {"room": 0, "full": 0, "left": 0, "left_in_the_end": 0, "findings": []}
        with self.disk(self._new_folder()) as disk:
            folder = disk.folder / "work"
            folder.mkdir()
            if name not in self.needed:
                outcome = children.run(job.run, folder, poll=disk.note)
                self._end(job, folder, outcome, reference, found)
                self.needed[name] = disk.needed()
        with self.disk(self._new_folder()) as disk:
            folder = disk.folder / "work"
            folder.mkdir()
            room = found["room"] = int(rng.integers(self.needed[name]))
            disk.fill(room)
            outcome = children.run(_within, disk, job, folder)
            error = outcome.error
            if outcome.hangs or outcome.status < 0:
                found["findings"].append(_ended(outcome))
            if outcome.status:
                found["full"] = 1
                self._check(job, folder, outcome.lines, reference, found)
                if error and not disks.names_a_full_disk(error):
                    said = f"{error['kinds'][0]}: {error['text'][:400]}"
                    found["findings"].append(
                        f"the error does not say that the disk is full: {said}"
                    )
                lines = outcome.lines
                disk.empty()
                outcome = children.run(_within, disk, job, folder)
                found["findings"] += self._of_resumed(job, lines, outcome)
            self._end(job, folder, outcome, reference, found)
        return found

    def reference(self, name):
        """Return the outcome of a job in one piece."""
        if name not in self.references:
            outcome = children.run(self.jobs[name].run, self._new_folder())
            if outcome.status or outcome.result is None:
                raise RuntimeError(f"The job {name} fails: {_ended(outcome)}")
            if not outcome.seconds:
                raise RuntimeError(f"The job {name} does not tell when its work starts")
            self.references[name] = outcome
        return self.references[name]

    def _new_folder(self):
        self.number += 1
        folder = self.folder / str(self.number)
        folder.mkdir()
        return folder

    def _kill_one_of_several(self, job, reference, rng):
        folder, victim = self._new_folder(), str(rng.choice(job.victims))
        after = rng.random() * reference.seconds
        outcome = children.run(job.run, folder, victim, after)
        found = {"kills": 1, "left": 0, "left_in_the_end": 0, "findings": []}
        if outcome.status:
            found["findings"].append(_ended(outcome))
        else:
            left = outcome.result.pop("left")
            found |= {"left": int(left > 0), "kills": outcome.result.pop("killed")}
            found["findings"] += outcome.result.pop("findings")
            if any(outcome.result[key] != reference.result[key] for key in outcome.result):
                found["findings"].append(f"another result: {outcome.result}")
        found["findings"] += checks.half_written(folder)
        found["left_in_the_end"] = len(checks.leftovers(folder))
        found["victim"] = victim
        return found

    def _check(self, job, folder, lines, reference, found):
        """Look at what lies in a folder, in a copy of this process."""
        found["left"] += bool(checks.leftovers(folder))
        found["findings"] += checks.half_written(folder)
        looked = children.run(job.check, folder, lines, reference.lines)
        found["findings"] += [_ended(looked)] if looked.result is None else looked.result

    def _of_resumed(self, job, before, outcome):
        check = getattr(job, "check_resumed", None)
        return check(before, outcome.lines) if check else []

    def _end(self, job, folder, outcome, reference, found):
        """Compare the end of a job with that in one piece."""
        if outcome.status or outcome.result is None:
            found["findings"].append(f"it does not go on: {_ended(outcome)}")
            return
        different = [k for k, v in outcome.result.items() if v != reference.result[k]]
        if different:
            found["findings"].append(f"the result differs from that in one piece: {different}")
        found["findings"] += checks.half_written(folder)
        left = checks.leftovers(folder)
        found["left_in_the_end"] = len(left)


def _within(disk, job, folder):
    disk.prepare()
    return job.run(folder)


def _ended(outcome):
    """Return how a copy ended, a text."""
    if outcome.hangs:
        return "it hangs"
    if outcome.error:
        error = outcome.error
        return f"{error['kinds'][0]}: {error['text'][:400]} {error.get('trace', '')[-1500:]}"
    return f"it ends with status {outcome.status}"
