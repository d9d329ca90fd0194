"""Control groups: trees of files as in the kernel, of version 1 and 2, with and without containers."""

import pytest

from aserve.processes.fleet.cgroups import Cgroups

pytestmark = pytest.mark.long_on_pypy


class Tree:
    """A /proc and the mounted folders, in a folder of the test's."""

    def __init__(self, folder):
        self.folder = folder
        self.proc = folder / "proc"
        self.write("proc/self/cgroup", "")
        self.write("proc/self/mountinfo", "22 1 0:21 / /proc rw,relatime shared:5 - proc proc rw")
        self.cgroups = Cgroups(str(self.proc))

    def write(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def groups(self, *lines):
        self.write("proc/self/cgroup", "\n".join(lines))

    def mount(self, path, kind="cgroup2", options="rw", root="/"):
        """Mount a hierarchy at this path of the tree."""
        (self.folder / path).mkdir(parents=True, exist_ok=True)
        at = str(self.folder / path).replace(" ", "\\040")
        info = self.proc / "self/mountinfo"
        line = f"30 23 0:26 {root} {at} rw,nosuid shared:4 master:1 - {kind} {kind} {options}\n"
        info.write_text(info.read_text() + line)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.fixture
def v2(tree):
    """One hierarchy, and a process deep inside."""
    tree.groups("0::/system.slice/shop.service")
    tree.mount("cg")
    return tree


@pytest.fixture
def v1(tree):
    """A hierarchy for each controller, two mounted together; and an empty one of version 2, as under systemd."""
    tree.groups("5:memory:/site/shop", "4:cpu,cpuacct:/site/shop", "1:name=systemd:/", "0::/")
    tree.mount("cg/systemd", "cgroup", "rw,name=systemd")
    tree.mount("cg/cpu", "cgroup", "rw,cpu,cpuacct")
    tree.mount("cg/memory", "cgroup", "rw,memory")
    tree.mount("cg/unified")
    return tree


def test_nothing_is_known(tree):
    """Without control groups, or even without /proc, there are no answers."""
    for cgroups in (tree.cgroups, Cgroups(str(tree.folder / "no"))):
        assert cgroups.cpu_quota() is cgroups.memory_limit_bytes() is cgroups.oom_kill_count() is None


def test_groups_that_are_not_mounted(tree):
    """A group without its hierarchy tells nothing."""
    tree.groups("5:memory:/a", "0::/")
    assert tree.cgroups.cpu_quota() is tree.cgroups.memory_limit_bytes() is None


# Version 2


@pytest.mark.parametrize(
    ("text", "quota"),
    [("max 100000", None), ("50000 100000", 0.5), ("150000 100000", 1.5), ("", None), ("50000 0", None)],
)
def test_cpu_max_has_time_and_period(v2, text, quota):
    v2.write("cg/system.slice/shop.service/cpu.max", text)
    assert v2.cgroups.cpu_quota() == quota


def test_the_least_of_all_above_counts(v2):
    """A limit may be the slice's; the group of the whole machine has no such files."""
    v2.write("cg/system.slice/cpu.max", "100000 100000")
    v2.write("cg/system.slice/shop.service/cpu.max", "300000 100000")
    v2.write("cg/system.slice/memory.max", "1000000")
    v2.write("cg/system.slice/shop.service/memory.max", "max")
    assert v2.cgroups.cpu_quota() == 1.0 and v2.cgroups.memory_limit_bytes() == 1000000


@pytest.mark.parametrize(
    ("most", "high", "limit"),
    [("max", "max", None), ("2000", "max", 2000), ("max", "1500", 1500), ("2000", "1500", 1500), ("2000", None, 2000)],
)
def test_memory_high_is_a_limit_too(v2, most, high, limit):
    """Beyond memory.high a process is held up so much that it is a limit, too."""
    v2.write("cg/system.slice/shop.service/memory.max", most)
    if high is not None:
        v2.write("cg/system.slice/shop.service/memory.high", high)
    assert v2.cgroups.memory_limit_bytes() == limit


def test_oom_kills_are_counted_below_the_group(v2):
    v2.write("cg/system.slice/shop.service/memory.events", "low 0\nhigh 5\nmax 7\noom 4\noom_kill 3\noom_group_kill 0")
    v2.write("cg/system.slice/memory.events", "oom_kill 9")
    v2.write("proc/vmstat", "oom_kill 12")
    assert v2.cgroups.oom_kill_count() == 3


def test_oom_kills_of_the_machine(v2):
    """The root group has no memory.events: then the machine's count is asked."""
    v2.write("proc/vmstat", "nr_free_pages 1\noom_kill 12")
    assert v2.cgroups.oom_kill_count() == 12


def test_a_namespace_of_its_own(tree):
    """In most containers of today the group is / and the mount begins there: its files are the group's own."""
    tree.groups("0::/")
    tree.mount("cg")
    tree.write("cg/cpu.max", "200000 100000")
    tree.write("cg/memory.max", "5000")
    assert (tree.cgroups.cpu_quota(), tree.cgroups.memory_limit_bytes()) == (2.0, 5000)


def test_a_group_outside_of_the_namespace(tree):
    """A moved process sees a path that leads out: only the mounted part can be known."""
    tree.groups("0::/../../other")
    tree.mount("cg")
    tree.write("cg/memory.max", "5000")
    tree.write("other/memory.max", "1")
    assert tree.cgroups.memory_limit_bytes() == 5000


def test_a_mount_with_a_blank_in_its_name(tree):
    """proc(5): such characters are octal."""
    tree.groups("0::/")
    tree.mount("control groups")
    tree.write("control groups/memory.max", "5000")
    assert tree.cgroups.memory_limit_bytes() == 5000


# Version 1


@pytest.mark.parametrize(("quota", "expected"), [("-1", None), ("25000", 0.25), ("250000", 2.5)])
def test_a_quota_of_minus_one_is_none(v1, quota, expected):
    v1.write("cg/cpu/site/shop/cpu.cfs_quota_us", quota)
    v1.write("cg/cpu/site/shop/cpu.cfs_period_us", "100000")
    assert v1.cgroups.cpu_quota() == expected


@pytest.mark.parametrize(("limit", "expected"), [("9223372036854771712", None), ("5000", 5000)])
def test_the_largest_number_is_no_memory_limit(v1, limit, expected):
    v1.write("cg/memory/memory.limit_in_bytes", "9223372036854771712")
    v1.write("cg/memory/site/memory.limit_in_bytes", limit)
    assert v1.cgroups.memory_limit_bytes() == expected


def test_oom_kills_v1(v1):
    v1.write("cg/memory/site/shop/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2")
    assert v1.cgroups.oom_kill_count() == 2


def test_a_container_v1(tree):
    """The group has the machine's name, and only the part below it is mounted."""
    tree.groups("5:memory:/docker/abc", "0::/system.slice/containerd.service")
    tree.mount("cg/memory", "cgroup", "rw,memory", root="/docker/abc")
    tree.write("cg/memory/memory.limit_in_bytes", "5000")
    assert tree.cgroups.memory_limit_bytes() == 5000


def test_a_group_inside_of_a_container_v1(tree):
    """The part of the name above the mount is left out, and no more."""
    tree.groups("5:memory:/docker/abc/shop")
    tree.mount("cg/memory", "cgroup", "rw,memory", root="/docker/abc")
    tree.write("cg/memory/shop/memory.limit_in_bytes", "5000")
    assert tree.cgroups.memory_limit_bytes() == 5000
    tree.groups("5:memory:/docker/abcdef/shop")
    assert tree.cgroups.memory_limit_bytes() is None


def test_controllers_of_both_versions_are_found(v1):
    """A controller of version 1 is looked for there, any other in version 2."""
    v1.groups("4:cpu:/site/shop", "0::/site")
    v1.write("cg/cpu/site/shop/cpu.cfs_quota_us", "100000")
    v1.write("cg/cpu/site/shop/cpu.cfs_period_us", "100000")
    v1.write("cg/unified/site/cpu.max", "700000 100000")
    v1.write("cg/unified/site/memory.max", "5000")
    assert (v1.cgroups.cpu_quota(), v1.cgroups.memory_limit_bytes()) == (1.0, 5000)


def test_numbers_of_this_machine_make_sense():
    cgroups = Cgroups()
    quota, limit, kills = cgroups.cpu_quota(), cgroups.memory_limit_bytes(), cgroups.oom_kill_count()
    assert quota is None or quota > 0
    assert limit is None or limit > 1 << 20
    assert kills is None or kills >= 0
