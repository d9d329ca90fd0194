"""As in the first tutorial of everybody."""

from telling import application

app = application
