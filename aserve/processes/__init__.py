"""Many processes: one supervisor, and workers that each serve the app.

```
  aserve app:app --workers 2

  supervisor ------------ channel ------------ worker 1     forked: imports the app, and runs
     |   owns the listeners, shared pages          |          one Server on its event loop
     |                                             |
     +------------------- channel ------------ worker 2
     :                                             :
     +................... channel ............ worker 2's successor, while one replaces the other
```

- The **supervisor** (supervisor.py) is plain Python: no event loop, no threads, and it never imports the app. So it can fork at
  any time, and no fault of the app's is its own. It binds the listeners, starts workers, and replaces those that end or are to be renewed.
- A **worker** (worker/worker.py) is what aserve is without `--workers`, on listeners that it has inherited.
- A **slot** is a worker's number, from 1 on. It stays when its worker is replaced by a successor, which for a while serves beside it.
- Each worker has a **channel** to the supervisor (children/channel.py), and a **page** of memory that all processes see (children/pages.py).
- With `--preload`, a **mold** (worker/mold.py) imports the app, and workers are forked from it; their messages are in events.py.
- **What the machine has room for** is in fleet/resources.py and fleet/cgroups.py; monitoring/status.py says how workers are; fleet/recycling.py and children/liveness.py judge, purely, when a worker has served
  its time, and whether its event loop turns. monitoring/watch.py asks them once a second.

Read supervisor.py first, a loop of four steps: wait, apply, decide, act. Then events.py: a method for each signal, each word of a child, and each second, changes the facts
(fleet/fleet.py). acts.py has a method for each action that fleet/decide.py finds due. parts.py makes the objects.
What is due next, fleet/decide.py decides by facts alone: time limits are facts, too (fleet/facts.py), by a clock that stands still while the supervisor is stopped (children/clock.py).
With `--reload` a worker looks for saved files (worker/reloading.py).
"""
