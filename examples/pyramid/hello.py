from pyramid.config import Configurator
from pyramid.response import Response


def main(global_config, **settings):
    with Configurator(settings=settings) as config:
        config.add_route("index", "/")
        config.add_view(lambda request: Response("Hello from Pyramid!\n"), route_name="index")
        return config.make_wsgi_app()
