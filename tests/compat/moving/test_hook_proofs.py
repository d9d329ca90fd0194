"""Which hooks provably decide nothing."""

import itertools

import pytest
from harness.benchmarks import load_module

from aserve.compat.moving.hook_proofs import only_calls_factory, only_logs

NUMBERS = itertools.count()
HEAD = """\
import datetime, functools, logging, os, time
from datetime import datetime as dt
from time import monotonic
logger = logging.getLogger("hooks")
FORM, ALLOWED, HOOKS = "%s", ["/x"], {}
class Log:
    def info(self, *what): raise ValueError
    debug = info
own = Log()
"""


@pytest.fixture
def define(tmp_path):
    """Return the function `hook` of a module: define(source) -> function."""

    def define(source):
        path = tmp_path / f"hooks{next(NUMBERS)}.py"
        path.write_text(HEAD + source + "\n")
        return load_module(path).hook

    return define


@pytest.mark.parametrize(
    "body",
    [
        "worker.log.debug('%s %s', req.method, req.path)",
        "worker.log.info('%s' % (req.path,))",
        "worker.log.info('%s %r' % (req.path, worker.pid))",
        "worker.log.info('{} {!r}'.format(req.method, req.uri))",
        "worker.log.info('{1} {0}'.format(req.method, req.uri))",
        "worker.log.info(f'{req.method} {req.uri!r}')",
        "worker.log.info('x', exc_info=True)",
        "worker.log.info('x', extra={'path': req.path})",
        "req.start_time = time.time()",
        "req.start_time = datetime.datetime.now()",
        "req.start_time = dt.now()",
        "req.start_time = monotonic()",
        "logger.info(FORM, req.headers)",
        "logging.warning('x')",
        "logging.getLogger('a').error('x')",
        "log = logging.getLogger('a')\nlog.error('x')",
        "log = worker.log\nlog.critical(req.query)",
        "agent = dict(req.headers).get('USER-AGENT', '-')\nworker.log.info('%s', agent)",
        "print(os.getpid(), len(req.headers), len(req.path), str(req.version), repr(req.peer_addr))",
        "'''It logs.'''\nif req.path not in ('/health', '/ping') and not '/static' in req.uri:\n    worker.log.debug('x')\nelse:\n    pass",
        "if req.method == 'GET' or req.path != '/x' or req.query is None: worker.log.debug('x')",
        "worker.log.info('%s', req.path if req.path else req.uri)",
        "worker.log.info('%s', req.uri[:80])",
        "return",
        "return worker.log.info('x')",
        "return [req.path, (worker.age,)]",
    ],
)
def test_what_only_logs(define, body):
    """Lines in a log, and the time: such hooks keep no request from the app."""
    assert only_logs(define("def hook(worker, req):\n" + "".join(f"    {line}\n" for line in body.split("\n"))))


def test_a_lambda_that_logs(define):
    """As a function does."""
    assert only_logs(define("hook = lambda worker, req: worker.log.info(req.path)"))
    assert not only_logs(define("hook = lambda worker, req: req.headers.clear()"))
    assert not only_logs(define("other, hook = lambda w, r: w.log.info('x'), lambda w, r: r.headers.clear()"))


@pytest.mark.parametrize(
    "body",
    [
        "req.scheme = 'https'",
        "req.start_time = req.headers.clear()",
        "worker.start_time = 1",
        "raise ValueError",
        "raise",
        "assert req.path != '/x'",
        "h = req.headers\nh += [('X', '1')]",
        "h = req.headers\nh.append(('X', '1'))",
        "req.headers += [('X', '1')]",
        "req.headers[:] = []",
        "dict(req.headers)['X']",
        "worker.log.info('%s', dict(req.headers)['X'])",
        "dict(req.path)",
        "{}['X']",
        "worker.log.info('%s', ALLOWED.index(req.path))",
        "worker.log.info('%s', 1 / 0)",
        "worker.log.info('%s', req.path + 1)",
        "worker.log.info('%s' % req.peer_addr)",
        "worker.log.info('%d' % (req.path,))",
        "worker.log.info('%s %s' % (req.path,))",
        "worker.log.info('%(a)s' % (req.path,))",
        "worker.log.info('{}'.format())",
        "worker.log.info('{a}'.format(req.path))",
        "worker.log.info('{0.x}'.format(req.path))",
        "worker.log.info('{:d}'.format(req.path))",
        "worker.log.info('{'.format(req.path))",
        "worker.log.info(b'{}'.format(req.path))",
        "worker.log.info(f'{req.path:d}')",
        "worker.log.info()",
        "worker.log.info('x', extra={'message': 'x'})",
        "worker.log.info('x', extra=req.headers)",
        "worker.log.info('x', stacklevel=req.path)",
        "worker.log.info(*req.headers)",
        "worker.log.info('x', **HOOKS)",
        "worker.log.addFilter(req)",
        "worker.log.info(req.nosuch)",
        "nosuch = req.nosuch",
        "worker.log.info(unknown)",
        "worker.log.info(late)\nlate = 1",
        "if req.path: known = 1\nworker.log.info(known)",
        "log = worker.log\nif req.path: log = 'x'\nlog.info('x')",
        "log = worker.log\nlog = 1\nlog.info('x')",
        "worker = 1\nworker.log.info('x')",
        "own.info(req.path)",
        "functools.partial(print)()",
        "worker.log.info('%s', req.path < 1)",
        "worker.log.info('%s', 1 < 2 in ALLOWED)",
        "worker.log.info('%s', req.path in ALLOWED)",
        "worker.log.info('%s', 1 in req.path)",
        "worker.log.info('%s', -req.path)",
        "worker.log.info('%s', len(1))",
        "worker.log.info('%s', str(req.path, 'utf-8'))",
        "worker.log.info('%s', time.time(1))",
        "worker.log.info('%s', time.sleep(100))",
        "worker.log.info('%s', req.uri[req.path:])",
        "worker.log.info('%s', req.uri[0])",
        "worker.log.info('%s', req.uri[::0])",
        "print(req.path, file=req)",
        "[each for each in req.headers]",
        "(lambda: req.headers.clear())()",
        "for name in req.headers: pass",
        "try:\n    pass\nfinally:\n    req.path = '/'",
        "del req.headers",
        "global FORM\nFORM = req",
        "import os",
        "yield",
        "a = b = req.headers",
        "a, b = req.path",
        "time = req\nreq.start_time = time.time()",
        "worker.log.info(logging.getLogger(req.path).nosuch())",
        "exec('raise ValueError')",
    ],
)
def test_what_may_do_more(define, body):
    """A hook that changes a request, may raise, or is unknown, counts as a guard."""
    assert not only_logs(define("def hook(worker, req):\n" + "".join(f"    {line}\n" for line in body.split("\n"))))


@pytest.mark.parametrize(
    "source",
    [
        "def hook(worker, req, check=print): check(req)",
        "def hook(worker, req, *, log=own): log.info(req)",
        "def hook(worker, req=None): worker.log.info('x')",
        "def hook(*both): print('x')",
        "def hook(worker, req, /): worker.log.info('x')",
        "def hook(worker): worker.log.info('x')",
        "def make():\n    log = own\n    def hook(worker, req): log.info('x')\n    return hook\nhook = make()",
        "def wrap(function):\n    @functools.wraps(function)\n    def inner(worker, req): raise ValueError\n    return inner\n@wrap\ndef hook(worker, req): worker.log.info('x')",
        "logger = own\ndef hook(worker, req): logger.info('x')",
        "def print(*what): raise ValueError\ndef hook(worker, req): print('x')",
        "hook = functools.partial(print)",
        "hook = print",
        "class Hook:\n    def __call__(self, worker, req): raise ValueError\nhook = Hook()",
        "class Hook:\n    def hook(self, worker, req): pass\nhook = Hook().hook",
        "async def hook(worker, req): worker.log.info('x')",
        "exec('def hook(worker, req): worker.log.info(1)')",
        "exec(compile('def hook(worker, req): worker.log.info(1)', __file__, 'exec'))",
        "def hook(worker, req): worker.log.info('x')\nhook.__defaults__ = (1,)",
    ],
)
def test_functions_that_are_not_known(define, source):
    """Defaults, decorators, closures, objects, names with another meaning, code without a source."""
    assert not only_logs(define(source))


def test_a_source_that_has_changed(define):
    """The file is not the function's: nothing is proved by it."""
    hook = define("def hook(worker, req): worker.log.info(req.path)")
    path = hook.__code__.co_filename
    assert only_logs(hook)
    text = HEAD + "def hook(worker, req): worker.log.info(req.uri)\n"
    for changed in (text, "x = (", "\0", ""):
        with open(path, "w") as file:
            file.write(changed)
        assert not only_logs(hook)


@pytest.mark.parametrize(
    ("source", "is_proved"),
    [
        ("def hook(config, factory): return factory()", True),
        ("def hook(config, factory):\n    '''As it is.'''\n    return factory()", True),
        ("hook = lambda config, factory: factory()", True),
        ("def hook(config, factory): return config()", False),
        ("def hook(config, factory): return factory(1)", False),
        ("def hook(config, factory): return factory().x", False),
        ("def hook(config, factory):\n    context = factory()\n    context.verify_mode = 2\n    return context", False),
        ("def hook(config, factory=print): return factory()", False),
        ("def hook(config, factory): '''Nothing.'''", False),
        ("hook = print", False),
    ],
)
def test_contexts_of_tls(define, source, is_proved):
    """gunicorn's own context equals aserve's."""
    assert only_calls_factory(define(source)) == is_proved
