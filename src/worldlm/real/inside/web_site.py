# mypy: ignore-errors
# Django exists only where this runs: in the sandbox.
"""Inside a browser's sandbox: the server of a local site. Prints a line when it can be reached.

web_site.py static PORT FOLDER          the files of a folder
web_site.py django PORT APP SEED        Django's admin over an app of this folder, filled from the seed
"""

import functools
import http.server
import importlib
import itertools
import random
import sys
import tempfile
from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
"""The site's time at the start."""
REQUEST_SECONDS = 7
"""By which it goes on at each request: a clock of its own, so that what it writes down does not depend on speed."""
SESSION = "a2f4c6e8b1d3f5a7c9e0b2d4f6a8c1e3"
"""The key of the session in which the administrator is logged in."""
ADMIN, PASSWORD = "admin", "harbour-42"


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing about it."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        """Nothing."""

    def send_head(self):
        """As it is, but for ever fresh: whether a browser has a file already must not show."""
        del self.headers["If-Modified-Since"]
        return super().send_head()


def serve_files(port, folder):
    """Serve a folder."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Files, directory=folder))
    ready()
    server.serve_forever()


def ready():
    """Tell that the site can be reached."""
    print("ready", flush=True)


def serve_django(port, app, seed):
    """Serve the admin of an app."""
    import django
    from django.conf import settings

    title = importlib.import_module(app).TITLE
    settings.configure(
        SECRET_KEY="a key that keeps no secret",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF="web_site_urls",
        STATIC_URL="/static/",
        USE_TZ=True,
        TIME_ZONE="UTC",
        INSTALLED_APPS=[
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.messages",
            "django.contrib.staticfiles",
            app,
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        # Fast, because the password keeps nothing either.
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{tempfile.gettempdir()}/site.sqlite3"}
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        MIGRATION_MODULES=Unmigrated(),
    )
    requests = itertools.count()
    time = keep_time()
    django.setup()

    from django.contrib import admin
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.contrib.staticfiles.views import serve
    from django.core.handlers.wsgi import WSGIHandler
    from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler

    admin.site.site_header = admin.site.site_title = title
    admin.site.site_url = None
    fill(app, seed)

    class Static(StaticFilesHandler):
        """Serves the admin's own files without its checks of a development server."""

        def serve(self, request):
            answer = serve(request, self.file_path(request.path), insecure=True)
            answer["Cache-Control"] = "max-age=31536000, immutable"  # else each page asks for all of them again
            return answer

    class Quiet(WSGIRequestHandler):
        """Says nothing about requests."""

        def log_message(self, *args):
            pass

    pages, handler = WSGIHandler(), None

    def answer(environ, start_response):
        time[0] = NOW + timedelta(seconds=REQUEST_SECONDS * next(requests))
        return pages(environ, start_response)

    answer.get_response = pages.get_response  # what the handler of static files asks of what it wraps
    handler = Static(answer)
    server = ThreadedWSGIServer(("127.0.0.1", port), Quiet)
    server.set_app(handler)
    server.daemon_threads = True
    ready()
    server.serve_forever()


class Unmigrated:
    """Tables are made from the models as they are, which is many times faster than by their history."""

    def __contains__(self, app):
        return True

    def __getitem__(self, app):
        return None


def keep_time():
    """Put the site's own clock in place of the system's; its one element is the time."""
    import django.utils.timezone as timezone

    time = [NOW]
    timezone.now = lambda: time[0]
    return time


def fill(app, seed):
    """Make the tables, the administrator with a session, and the app's records."""
    from django.contrib.admin import site
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import Group, User
    from django.contrib.sessions.models import Session
    from django.core.management import call_command
    from django.db import transaction

    call_command("migrate", run_syncdb=True, verbosity=0)
    site.unregister([Group, User])
    with transaction.atomic():
        admin = User.objects.create_superuser(ADMIN, "admin@example.com", PASSWORD)
        session = {
            SESSION_KEY: str(admin.pk),
            BACKEND_SESSION_KEY: "django.contrib.auth.backends.ModelBackend",
            HASH_SESSION_KEY: admin.get_session_auth_hash(),
        }
        Session.objects.save(SESSION, session, NOW + timedelta(days=365))
        importlib.import_module(f"{app}.records").fill(random.Random(seed), NOW)


if __name__ == "__main__":
    kind, port, *rest = sys.argv[1:]
    if kind == "static":
        serve_files(int(port), *rest)
    else:
        serve_django(int(port), rest[0], int(rest[1]))
