"""Many processes: one supervisor, and workers, each of them with the app.

```
  aserve app:app --workers 2

  supervisor ------------ channel ------------ worker 1     forked: imports the app, and runs
     |   owns the listeners, shared pages          |          one Server on its event loop
     |                                             |
     +------------------- channel ------------ worker 2
     :                                             :
     +................... channel ............ worker 2's successor, while one replaces the other
```

- The **supervisor** (supervisor.py) is plain Python: no event loop, no threads, and no import of the app. So the supervisor can fork at any time, and survives
  each fault of the app. The supervisor binds the listeners, starts workers, and replaces workers.
- A **worker** (worker/worker.py) serves as aserve does without `--workers`, on inherited listeners.
- A **slot** is a worker's number, from 1 on. A successor has the slot of the worker before, and serves beside that worker for a while.
- Each worker has a **channel** to the supervisor (children/channel.py), and a **page** of memory for all processes to read (children/pages.py).
- With `--preload`, a **mold** (worker/mold.py) imports the app, and workers are forked from the mold; a mold's messages are in events.py.
- **The room of the machine** is in fleet/resources.py and fleet/cgroups.py, the state of workers in monitoring/status.py; fleet/recycling.py and children/liveness.py judge, purely, whether a worker has
  served its time, and whether the event loop turns. monitoring/watch.py asks them once a second.

Read supervisor.py first, a loop of four steps: wait, apply, decide, act. Then events.py: a method for each signal, each word of a child, and each second, changes the facts
(fleet/fleet.py). fleet/decide.py decides by facts alone. Time limits are facts, too (fleet/facts.py), by a clock that stands still while the supervisor is stopped
(children/poller.py). acts.py has a method for each action, and parts.py makes the objects. With `--reload` a worker looks for saved files (worker/reloading.py).
"""
