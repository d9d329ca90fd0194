"""What pyproject.toml cannot hold: the extension, and the tag of a wheel that depends on the interpreter."""

import sys
import sysconfig
from setuptools import setup

# cffi builds against the limited API, so one wheel serves CPython from 3.9 on. PyPy has no such API, and
# a free-threaded CPython refuses it (up to 3.14).
HAS_LIMITED_API = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    cffi_modules=["cparsers/build.py:ffi"],
    options={"bdist_wheel": {"py_limited_api": "cp39"}} if HAS_LIMITED_API else {},
)
