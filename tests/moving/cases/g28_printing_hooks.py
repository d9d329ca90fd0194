# hooks that print, logs in a folder, a name for the process
import multiprocessing

bind = "0.0.0.0:@PORT@"
workers = multiprocessing.cpu_count() * 2 + 1
worker_class = "sync"
threads = 2
worker_connections = 1000
timeout = 30
keepalive = 2
max_requests = 1000
max_requests_jitter = 50
accesslog = "run/gunicorn-access.log"
errorlog = "run/gunicorn-error.log"
loglevel = "info"
proc_name = "shop-freedom-api"
pidfile = "gunicorn.pid"
daemon = False
raw_env = ["SITE=production", "SHOP_HOST=0.0.0.0", "SHOP_PORT=9000"]


def on_starting(server):
    """Print a line with letters that are not of ASCII."""
    print("🚀 서버 시작 중...")


def on_reload(server):
    """Print that it reloads."""
    print("🔄 서버 리로드 중...")


def worker_int(worker):
    """Print who was interrupted."""
    print(f"⚠️  워커 {worker.pid} 중단됨")


def worker_abort(worker):
    """Print who was aborted."""
    print(f"❌ 워커 {worker.pid} 강제 종료됨")
