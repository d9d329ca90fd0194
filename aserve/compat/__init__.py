"""Interfaces of other servers: modules for apps, and entry points for PasteDeploy."""
