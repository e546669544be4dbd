# mypy: ignore-errors
"""The tables of the bookshop."""

import re

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models


def check_isbn(text):
    """Thirteen digits, the last of which checks the others."""
    digits = text.replace("-", "")
    if not re.fullmatch(r"\d{13}", digits):
        raise ValidationError("An ISBN has 13 digits.")
    if sum(int(digit) * (1 + 2 * (place % 2)) for place, digit in enumerate(digits)) % 10:
        raise ValidationError("The last digit of this ISBN does not check.")


class Author(models.Model):
    """Who wrote."""

    name = models.CharField(max_length=80)
    country = models.CharField(max_length=40, blank=True)
    born = models.DateField(null=True, blank=True)
    website = models.URLField(blank=True)

    class Meta:
        """By name."""

        ordering = ("name",)

    def __str__(self):
        return self.name


class Genre(models.Model):
    """What kind."""

    name = models.CharField(max_length=40, unique=True)
    slug = models.SlugField(unique=True)

    class Meta:
        """By name."""

        ordering = ("name",)

    def __str__(self):
        return self.name


class Book(models.Model):
    """What is sold."""

    class Binding(models.TextChoices):
        """How it is bound."""

        PAPERBACK = "paperback", "Paperback"
        HARDCOVER = "hardcover", "Hardcover"
        EBOOK = "ebook", "E-book"

    title = models.CharField(max_length=120)
    author = models.ForeignKey(Author, on_delete=models.PROTECT)
    genres = models.ManyToManyField(Genre, blank=True)
    isbn = models.CharField("ISBN", max_length=17, unique=True, validators=[check_isbn])
    binding = models.CharField(max_length=10, choices=Binding, default=Binding.PAPERBACK)
    price = models.DecimalField(max_digits=6, decimal_places=2, validators=[MinValueValidator(0.5)])
    stock = models.PositiveIntegerField(default=0)
    published = models.DateField()
    for_sale = models.BooleanField(default=True)
    notes = models.TextField(blank=True)

    class Meta:
        """By title."""

        ordering = ("title",)

    def __str__(self):
        return self.title

    def clean(self):
        """An e-book needs no stock."""
        if self.binding == self.Binding.EBOOK and self.stock:
            raise ValidationError({"stock": "An e-book has no stock."})


class Customer(models.Model):
    """Who buys."""

    name = models.CharField(max_length=80)
    email = models.EmailField(unique=True)
    city = models.CharField(max_length=40)
    member = models.BooleanField(default=False)
    joined = models.DateField()

    class Meta:
        """By name."""

        ordering = ("name",)

    def __str__(self):
        return self.name


class Order(models.Model):
    """What was bought at once."""

    class Status(models.TextChoices):
        """How far it has come."""

        NEW = "new", "New"
        PAID = "paid", "Paid"
        SHIPPED = "shipped", "Shipped"
        CANCELLED = "cancelled", "Cancelled"

    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
    status = models.CharField(max_length=10, choices=Status, default=Status.NEW)
    placed = models.DateTimeField()
    shipped = models.DateField(null=True, blank=True)

    class Meta:
        """The newest first."""

        ordering = ("-placed",)

    def __str__(self):
        return f"Order {1000 + self.pk}"

    def clean(self):
        """Shipped on a day, and not before it was placed."""
        if self.status == self.Status.SHIPPED and not self.shipped:
            raise ValidationError({"shipped": "Say when it was shipped."})
        if self.shipped and self.placed and self.shipped < self.placed.date():
            raise ValidationError("It cannot be shipped before it was placed.")

    @property
    def total(self):
        """The sum of its lines."""
        return sum(line.quantity * line.price for line in self.lines.all())


class Line(models.Model):
    """A book of an order."""

    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines")
    book = models.ForeignKey(Book, on_delete=models.PROTECT)
    quantity = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1)])
    price = models.DecimalField(max_digits=6, decimal_places=2)

    def __str__(self):
        return f"{self.quantity} × {self.book}"
