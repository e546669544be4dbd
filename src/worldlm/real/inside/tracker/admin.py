# mypy: ignore-errors
"""The tracker's pages."""

from django.contrib import admin, messages

from tracker.models import Comment, Issue, Label, Person, Project


@admin.register(Person)
class PersonAdmin(admin.ModelAdmin):
    """People."""

    list_display = ("name", "email", "role", "active")
    list_filter = ("role", "active")
    search_fields = ("name", "email")
    list_editable = ("active",)


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin):
    """Projects, with the number of their open issues."""

    list_display = ("key", "name", "lead", "starts", "ends", "open_issues")
    search_fields = ("key", "name")
    date_hierarchy = "starts"

    @admin.display(description="Open issues")
    def open_issues(self, project):
        """How many are not done."""
        return project.issue_set.exclude(status=Issue.Status.DONE).count()


@admin.register(Label)
class LabelAdmin(admin.ModelAdmin):
    """Labels."""

    list_display = ("name", "colour")
    search_fields = ("name",)


class CommentInline(admin.StackedInline):
    """What was said on an issue."""

    model = Comment
    extra = 0
    readonly_fields = ("written",)


@admin.register(Issue)
class IssueAdmin(admin.ModelAdmin):
    """Issues with their comments; their assignee is looked up while it is typed."""

    list_display = ("title", "project", "status", "priority", "assignee", "due")
    list_filter = ("status", "priority", "project", "labels")
    search_fields = ("title", "description")
    autocomplete_fields = ("assignee",)
    radio_fields = {"priority": admin.HORIZONTAL}  # noqa: RUF012
    readonly_fields = ("created",)
    date_hierarchy = "due"
    inlines = (CommentInline,)
    list_per_page = 15
    actions = ("close", "raise_priority")

    @admin.action(description="Mark as done")
    def close(self, request, issues):
        """All of them."""
        self.message_user(request, f"{issues.update(status=Issue.Status.DONE)} issues are done.", messages.SUCCESS)

    @admin.action(description="Raise the priority")
    def raise_priority(self, request, issues):
        """No higher than urgent."""
        if issues.filter(priority=Issue.Priority.URGENT).exists():
            self.message_user(request, "An urgent issue cannot be raised.", messages.ERROR)
            return
        for issue in issues:
            issue.priority += 1
            issue.save()
        self.message_user(request, f"{len(issues)} issues were raised.", messages.SUCCESS)


@admin.register(Comment)
class CommentAdmin(admin.ModelAdmin):
    """Comments by themselves."""

    list_display = ("issue", "author", "text", "written")
    list_filter = ("author",)
    search_fields = ("text",)
