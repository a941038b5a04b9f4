// The contract's patterns of counters, which are those of a shell: `*`, `?`, `[a-z]`, `[!a-z]`.

const matches = (counter, pattern) => expressionOf(pattern).test(counter);

export const isBook = (counter, session) => session.books.some((pattern) => matches(counter, pattern));

// A counter has the rule of the first pattern that it matches.
export const takesCredits = (counter, session) => session.credits.includes(session.budgets.find((pattern) => matches(counter, pattern)));

function expressionOf(pattern) {
  const parts = pattern.split(/(\*|\?|\[!?\]?[^\]]*\])/).map((part, at) => {
    if (at % 2 === 0) return escaped(part);
    if (part === "*") return ".*";
    if (part === "?") return ".";
    const isNot = part[1] === "!";
    return `[${isNot ? "^" : ""}${part.slice(isNot ? 2 : 1, -1).replace(/[\\^[\]]/g, "\\$&")}]`;
  });
  return new RegExp(`^${parts.join("")}$`, "su");
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
