# mypy: ignore-errors
"""The tables of the tracker."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, RegexValidator
from django.db import models


class Person(models.Model):
    """Who works here."""

    class Role(models.TextChoices):
        """As what."""

        DEVELOPER = "developer", "Developer"
        DESIGNER = "designer", "Designer"
        MANAGER = "manager", "Manager"
        TESTER = "tester", "Tester"

    name = models.CharField(max_length=60, unique=True)
    email = models.EmailField(unique=True)
    role = models.CharField(max_length=10, choices=Role)
    active = models.BooleanField(default=True)

    class Meta:
        """By name."""

        ordering = ("name",)
        verbose_name_plural = "people"

    def __str__(self):
        return self.name


class Project(models.Model):
    """What issues belong to."""

    key = models.CharField(
        max_length=5, unique=True, validators=[RegexValidator("^[A-Z]{2,5}$", "A key is 2 to 5 capital letters.")]
    )
    name = models.CharField(max_length=80)
    lead = models.ForeignKey(Person, on_delete=models.PROTECT)
    starts = models.DateField()
    ends = models.DateField(null=True, blank=True)

    class Meta:
        """By key."""

        ordering = ("key",)

    def __str__(self):
        return f"{self.key} – {self.name}"

    def clean(self):
        """It ends after it starts."""
        if self.ends and self.starts and self.ends < self.starts:
            raise ValidationError({"ends": "A project cannot end before it starts."})


class Label(models.Model):
    """A word for issues."""

    name = models.CharField(max_length=30, unique=True)
    colour = models.CharField(
        max_length=7, default="#888888", validators=[RegexValidator("^#[0-9a-f]{6}$", "Write a colour as #rrggbb.")]
    )

    class Meta:
        """By name."""

        ordering = ("name",)

    def __str__(self):
        return self.name


class Issue(models.Model):
    """Something to do."""

    class Status(models.TextChoices):
        """How far it has come."""

        OPEN = "open", "Open"
        PROGRESS = "progress", "In progress"
        REVIEW = "review", "In review"
        DONE = "done", "Done"

    class Priority(models.IntegerChoices):
        """How much it matters."""

        LOW = 1, "Low"
        NORMAL = 2, "Normal"
        HIGH = 3, "High"
        URGENT = 4, "Urgent"

    title = models.CharField(max_length=120)
    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    status = models.CharField(max_length=10, choices=Status, default=Status.OPEN)
    priority = models.IntegerField(choices=Priority, default=Priority.NORMAL)
    assignee = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, blank=True)
    labels = models.ManyToManyField(Label, blank=True)
    estimate = models.PositiveSmallIntegerField(
        "estimate (hours)", null=True, blank=True, validators=[MaxValueValidator(200)]
    )
    due = models.DateField(null=True, blank=True)
    description = models.TextField(blank=True)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        """The newest first."""

        ordering = ("-created", "-pk")

    def __str__(self):
        return self.title

    def clean(self):
        """Work has somebody who does it."""
        if self.status in (self.Status.PROGRESS, self.Status.REVIEW) and not self.assignee:
            raise ValidationError({"assignee": "An issue in this status needs an assignee."})


class Comment(models.Model):
    """What was said on an issue."""

    issue = models.ForeignKey(Issue, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(Person, on_delete=models.PROTECT)
    text = models.TextField()
    written = models.DateTimeField(auto_now_add=True)

    class Meta:
        """The oldest first."""

        ordering = ("written", "pk")

    def __str__(self):
        return f"{self.author}: {self.text[:40]}"
