# mypy: ignore-errors
"""What the tracker holds at the start."""

from datetime import date, timedelta

from tracker.models import Comment, Issue, Label, Person, Project

NAMES = (
    "Amara Osei",
    "Bo Lindgren",
    "Carla Vidal",
    "Deniz Kaya",
    "Eli Stone",
    "Fumiko Ando",
    "Goran Petric",
    "Hana Sato",
    "Ivo Marek",
    "Jelena Ilic",
    "Kofi Mensah",
    "Lena Vogt",
    "Marco Riva",
    "Noor Haddad",
    "Oskar Wolff",
    "Priya Nair",
    "Rafael Luz",
    "Sanne Vos",
)
PROJECTS = (
    ("WEB", "Website relaunch"),
    ("APP", "Mobile app"),
    ("OPS", "Operations"),
    ("DATA", "Reporting"),
    ("PAY", "Payments"),
    ("DOC", "Handbook"),
)
LABELS = ("bug", "feature", "security", "performance", "help wanted", "regression", "accessibility")
VERBS = ("Fix", "Rewrite", "Test", "Remove", "Document", "Review", "Speed up", "Translate")
THINGS = (
    "the login page",
    "the export to CSV",
    "the nightly backup",
    "the search index",
    "the invoice template",
    "the settings dialog",
    "the error messages",
    "the start-up script",
    "the date picker",
    "the password reset",
)
REMARKS = (
    "I can reproduce this.",
    "Not urgent, but it comes up every week.",
    "Done on my branch.",
    "Waiting for the client.",
    "The estimate is too low.",
    "Please look at the log of Monday.",
    "Works for me.",
    "This depends on the new server.",
)


def fill(random, now):
    """Write the records."""
    people = Person.objects.bulk_create(
        Person(
            name=name,
            email=f"{name.lower().replace(' ', '.')}@example.com",
            role=random.choice(Person.Role.values),
            active=random.random() < 0.9,
        )
        for name in random.sample(NAMES, 14)
    )
    projects = Project.objects.bulk_create(
        Project(key=key, name=name, lead=random.choice(people), starts=date(2025, random.randrange(1, 13), 1))
        for key, name in random.sample(PROJECTS, 5)
    )
    labels = Label.objects.bulk_create(
        Label(name=name, colour=f"#{random.randrange(1 << 24):06x}") for name in random.sample(LABELS, 6)
    )
    titles = random.sample([f"{verb} {thing}" for verb in VERBS for thing in THINGS], 44)
    issues = []
    for title in titles:
        assignee = random.choice((*people, None))
        status = random.choice(Issue.Status.values if assignee else ("open", "done"))
        issues.append(
            Issue(
                title=title,
                project=random.choice(projects),
                status=status,
                priority=random.choice(Issue.Priority.values),
                assignee=assignee,
                estimate=random.choice((None, 1, 2, 4, 8, 16)),
                due=(now + timedelta(days=random.randrange(-20, 60))).date() if random.random() < 0.7 else None,
                created=now,
            )
        )
    Issue.objects.bulk_create(issues)
    for issue in issues:
        issue.labels.set(random.sample(labels, random.randrange(3)))
    Comment.objects.bulk_create(
        Comment(issue=random.choice(issues), author=random.choice(people), text=random.choice(REMARKS), written=now)
        for _ in range(40)
    )
