from setuptools import setup

setup(cffi_modules=["cparsers/build.py:ffi"])  # the one keyword that pyproject.toml cannot hold
