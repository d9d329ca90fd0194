import cherrypy


class Root:
    @cherrypy.expose
    def index(self):
        return "Hello from CherryPy!\n"


# Another server has the port, the threads and the signals; and clients see no tracebacks.
cherrypy.config.update({"environment": "embedded"})
app = cherrypy.Application(Root(), "/")
