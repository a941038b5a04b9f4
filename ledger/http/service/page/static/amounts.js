// Exact decimal amounts as text: "-12.50". JavaScript's numbers would round them.

const FORM = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
const DIGITS_SHOWN_MAX = 45;

// Return an amount as a whole number of its last digits' unit, and how many digits are behind the point.
function parsed(amount) {
  const found = FORM.exec(amount);
  if (found === null) throw new RangeError(`${amount} is no amount`);
  const [, sign, whole, rest = "", power = "0"] = found;
  const places = rest.length - Number(power);
  const digits = BigInt(sign + whole + rest);
  return places < 0 ? [digits * 10n ** BigInt(-places), 0] : [digits, places];
}

function rendered(digits, places) {
  const negative = digits < 0n;
  const text = (negative ? -digits : digits).toString().padStart(places + 1, "0");
  const whole = text.slice(0, text.length - places);
  const rest = places ? text.slice(-places).replace(/0+$/, "") : "";
  return (negative ? "-" : "") + whole + (rest ? `.${rest}` : "");
}

export function isAmount(text) {
  return FORM.test(text);
}

export function add(one, other) {
  const [left, leftPlaces] = parsed(one);
  const [right, rightPlaces] = parsed(other);
  const places = Math.max(leftPlaces, rightPlaces);
  const scaled = (digits, own) => digits * 10n ** BigInt(places - own);
  return rendered(scaled(left, leftPlaces) + scaled(right, rightPlaces), places);
}

export function isPositive(amount) {
  return parsed(amount)[0] > 0n;
}

export function negated(amount) {
  const [digits, places] = parsed(amount);
  return rendered(-digits, places);
}

export function sum(amounts) {
  return amounts.reduce(add, "0");
}

// Return an amount for people: digits in groups of three, a true minus, a plus where it is a change.
export function shown(amount, {signed = false} = {}) {
  const [digits, places] = parsed(amount);
  const text = rendered(digits < 0n ? -digits : digits, places);
  if (text.length > DIGITS_SHOWN_MAX) return amount;
  const [whole, rest] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
  return (digits < 0n ? "\u2212" : signed && digits > 0n ? "+" : "") + grouped;
}
