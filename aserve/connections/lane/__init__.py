"""The lane's wire: requests that the worker which runs them reads and answers by itself."""
