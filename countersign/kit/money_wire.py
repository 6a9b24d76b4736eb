"""Money on the wire: `google.type.Money` and the kit's Money, both exact."""

from google.type import money_pb2

from countersign.kit.money import NANOS_PER_UNIT, Money, MoneyError


def to_wire(money: Money) -> money_pb2.Money:
    """The wire form; units and nanos carry the same sign."""
    sign = -1 if money.nanos < 0 else 1
    units, nanos = divmod(abs(money.nanos), NANOS_PER_UNIT)
    return money_pb2.Money(currency_code=money.currency, units=sign * units, nanos=sign * nanos)


def from_wire(message: money_pb2.Money) -> Money:
    """Read the wire form; raises MoneyError where signs disagree, nanos are out of range or no currency is named."""
    if abs(message.nanos) >= NANOS_PER_UNIT or message.units * message.nanos < 0:
        raise MoneyError("units and nanos do not make one amount")
    if len(message.currency_code) != 3 or not message.currency_code.isascii() or not message.currency_code.isupper():
        raise MoneyError("the currency is not an ISO 4217 code")
    return Money(message.currency_code, message.units * NANOS_PER_UNIT + message.nanos)
