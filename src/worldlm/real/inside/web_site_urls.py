# mypy: ignore-errors
"""The addresses of a Django site: its admin, and its root, which leads there."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

urlpatterns = [path("admin/", admin.site.urls), path("", RedirectView.as_view(url="/admin/"))]
