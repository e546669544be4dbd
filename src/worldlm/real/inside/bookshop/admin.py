# mypy: ignore-errors
"""The bookshop's pages."""

from django.contrib import admin, messages

from bookshop.models import Author, Book, Customer, Genre, Line, Order


@admin.register(Author)
class AuthorAdmin(admin.ModelAdmin):
    """Authors, with the number of their books."""

    list_display = ("name", "country", "born", "books")
    list_filter = ("country",)
    search_fields = ("name", "country")
    list_per_page = 20

    @admin.display(description="Books")
    def books(self, author):
        """How many."""
        return author.book_set.count()


@admin.register(Genre)
class GenreAdmin(admin.ModelAdmin):
    """Genres, whose slug is written for them."""

    list_display = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}  # noqa: RUF012
    search_fields = ("name",)


@admin.register(Book)
class BookAdmin(admin.ModelAdmin):
    """Books: stock and sale can be changed in the list."""

    list_display = ("title", "author", "binding", "price", "stock", "published", "for_sale")
    list_editable = ("stock", "for_sale")
    list_filter = ("binding", "for_sale", "genres", "published")
    search_fields = ("title", "author__name", "isbn")
    date_hierarchy = "published"
    filter_horizontal = ("genres",)
    list_per_page = 15
    actions = ("take_off_sale", "raise_prices")
    fieldsets = (
        (None, {"fields": ("title", "author", "isbn", "binding", "genres")}),
        ("Sale", {"fields": (("price", "stock"), "published", "for_sale")}),
        ("More", {"classes": ("collapse",), "fields": ("notes",)}),
    )

    @admin.action(description="Take off sale")
    def take_off_sale(self, request, books):
        """No longer sold."""
        count = books.update(for_sale=False)
        self.message_user(request, f"{count} books were taken off sale.", messages.SUCCESS)

    @admin.action(description="Raise prices by a tenth")
    def raise_prices(self, request, books):
        """Only what is sold."""
        if books.filter(for_sale=False).exists():
            self.message_user(request, "Prices of books that are not for sale cannot be raised.", messages.ERROR)
            return
        for book in books:
            book.price = round(book.price * 11 / 10, 2)
            book.save()
        self.message_user(request, f"The prices of {len(books)} books were raised.", messages.SUCCESS)


@admin.register(Customer)
class CustomerAdmin(admin.ModelAdmin):
    """Customers."""

    list_display = ("name", "email", "city", "member", "joined")
    list_filter = ("member", "city")
    search_fields = ("name", "email")
    date_hierarchy = "joined"
    list_per_page = 15


class LineInline(admin.TabularInline):
    """The books of an order."""

    model = Line
    extra = 1


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    """Orders with their lines."""

    list_display = ("__str__", "customer", "status", "placed", "shipped", "total")
    list_filter = ("status", "placed")
    search_fields = ("customer__name",)
    raw_id_fields = ("customer",)
    inlines = (LineInline,)
    list_per_page = 15
    actions = ("mark_paid", "cancel")

    @admin.action(description="Mark as paid")
    def mark_paid(self, request, orders):
        """Only new ones."""
        count = orders.filter(status=Order.Status.NEW).update(status=Order.Status.PAID)
        level = messages.SUCCESS if count else messages.WARNING
        self.message_user(request, f"{count} orders were marked as paid.", level)

    @admin.action(description="Cancel")
    def cancel(self, request, orders):
        """None that is on its way."""
        if orders.filter(status=Order.Status.SHIPPED).exists():
            self.message_user(request, "Orders that are shipped cannot be cancelled.", messages.ERROR)
            return
        self.message_user(request, f"{orders.update(status=Order.Status.CANCELLED)} orders were cancelled.")
