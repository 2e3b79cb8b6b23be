"""A small warehouse inventory: stock levels, reservations, and a plain-text report."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path


class InventoryError(Exception):
    """Something asked of the inventory that it can't do."""


class UnknownItem(InventoryError):
    def __init__(self, sku: str) -> None:
        super().__init__(f"no item with SKU {sku!r}")
        self.sku = sku


class NotEnoughStock(InventoryError):
    def __init__(self, sku: str, wanted: int, available: int) -> None:
        super().__init__(f"{sku}: wanted {wanted}, only {available} available")
        self.sku = sku
        self.wanted = wanted
        self.available = available


@dataclass
class Item:
    sku: str
    name: str
    unit_price_cents: int
    quantity: int = 0
    reserved: int = 0
    tags: set[str] = field(default_factory=set)

    @property
    def available(self) -> int:
        return self.quantity - self.reserved

    @property
    def value_cents(self) -> int:
        return self.quantity * self.unit_price_cents

    def to_dict(self) -> dict[str, object]:
        return {
            "sku": self.sku,
            "name": self.name,
            "unit_price_cents": self.unit_price_cents,
            "quantity": self.quantity,
            "reserved": self.reserved,
            "tags": sorted(self.tags),
        }

    @classmethod
    def from_dict(cls, data: dict[str, object]) -> Item:
        return cls(
            sku=str(data["sku"]),
            name=str(data["name"]),
            unit_price_cents=int(data["unit_price_cents"]),
            quantity=int(data["quantity"]),
            reserved=int(data["reserved"]),
            tags=set(data["tags"]),
        )


class Inventory:
    """Items by SKU. Every change is checked before anything is written."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, sku: str) -> bool:
        return sku in self._items

    def add(self, item: Item) -> None:
        if item.sku in self._items:
            raise InventoryError(f"SKU {item.sku!r} is already taken")
        self._items[item.sku] = item

    def get(self, sku: str) -> Item:
        try:
            return self._items[sku]
        except KeyError:
            raise UnknownItem(sku) from None

    def receive(self, sku: str, count: int) -> Item:
        """Put `count` pieces on the shelf."""
        item = self.get(sku)
        if count <= 0:
            raise InventoryError(f"count must be positive, got {count}")
        item.quantity += count
        return item

    def reserve(self, sku: str, count: int) -> Item:
        """Set `count` pieces aside for an order."""
        item = self.get(sku)
        if count <= 0:
            raise InventoryError(f"count must be positive, got {count}")
        if count > item.available:
            raise NotEnoughStock(sku, count, item.available)
        item.reserved += count
        return item

    def release(self, sku: str, count: int) -> Item:
        """Give back `count` reserved pieces."""
        item = self.get(sku)
        if count <= 0:
            raise InventoryError(f"count must be positive, got {count}")
        if count > item.reserved:
            raise NotEnoughStock(sku, count, item.reserved)
        item.reserved -= count
        return item

    def ship(self, sku: str, count: int) -> Item:
        """Take `count` reserved pieces off the shelf."""
        item = self.get(sku)
        if count <= 0:
            raise InventoryError(f"count must be positive, got {count}")
        if count > item.reserved:
            raise NotEnoughStock(sku, count, item.reserved)
        item.reserved -= count
        item.quantity -= count
        return item

    def total_value_cents(self) -> int:
        return sum(item.value_cents for item in self._items.values())

    def tagged(self, tag: str) -> list[Item]:
        return [item for item in self._items.values() if tag in item.tags]

    def low_stock(self, threshold: int) -> list[Item]:
        return [item for item in self._items.values() if item.available < threshold]

    def save(self, path: Path) -> None:
        items = [item.to_dict() for item in self._items.values()]
        path.write_text(json.dumps(items, indent=2), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Inventory:
        inventory = cls()
        for data in json.loads(path.read_text(encoding="utf-8")):
            inventory.add(Item.from_dict(data))
        return inventory


def report(inventory: Inventory, skus: list[str]) -> str:
    lines = [f"{'SKU':<10} {'name':<20} {'quantity':>8} {'reserved':>8}"]
    for sku in skus:
        item = inventory.get(sku)
        lines.append(f"{item.sku:<10} {item.name:<20} {item.quantity:>8} {item.reserved:>8}")
    lines.append(f"total value: {inventory.total_value_cents() / 100:.2f}")
    return "\n".join(lines)
