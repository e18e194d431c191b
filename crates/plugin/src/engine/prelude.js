// What every rule finds around it. Runs first on each stage, before a word of the rules, and freezes all that it leaves.
// `longest` is the most characters of a reason or hint.
(longest) => {
  "use strict";
  const { freeze, getPrototypeOf, defineProperty } = Object;
  const { ownKeys } = Reflect;

  const rules = new Map(); // Each rule to whether a file exports it.
  const answers = new WeakSet();
  const named = /^[a-z0-9][a-z0-9._-]{0,63}$/;

  const text = (value, what) => {
    if (typeof value !== "string") throw new TypeError(`${what} must be a string`);
    if (value.length > longest) throw new TypeError(`${what} is longer than ${longest} characters`);
    return value;
  };
  const answer = (says, reason, hint) => {
    const made = { __proto__: null, says, reason: text(reason, "the reason"), hint: hint === undefined ? "" : text(hint, "the hint") };
    answers.add(freeze(made));
    return made;
  };
  const words = {
    rule(name, judge) {
      if (typeof name !== "string" || !named.test(name)) {
        throw new TypeError("a rule's name is 1 to 64 of a-z, 0-9, dot, dash and underscore");
      }
      if (typeof judge !== "function") throw new TypeError(`rule ${name} needs a function`);
      const made = freeze({ __proto__: null, name, judge });
      rules.set(made, false);
      return made;
    },
    allow: (reason) => answer("allow", reason),
    deny: (reason, hint) => answer("deny", reason, hint),
    review: (reason) => answer("review", reason),
    pass: () => answer("pass", ""),
  };
  for (const name of ownKeys(words)) globalThis[name] = words[name];

  // No clock, no chance, no code out of text: a rule's answer follows from the call alone.
  const absent = (what) => {
    const refuse = function () {
      throw new TypeError(`${what} is not there for rules: an answer follows from the call alone`);
    };
    return refuse;
  };
  globalThis.Date = absent("Date");
  for (const name of ["now", "parse", "UTC"]) globalThis.Date[name] = absent(`Date.${name}`);
  Math.random = absent("Math.random");
  const makers = [function () {}, async function () {}, function* () {}, async function* () {}];
  for (const made of makers) {
    const prototype = getPrototypeOf(made);
    const value = absent("code from text");
    defineProperty(value, "prototype", { value: prototype, writable: false });
    defineProperty(prototype, "constructor", { value });
  }
  globalThis.Function = Function.prototype.constructor;
  delete globalThis.eval;

  // Every object that rules share is frozen: ours, the global one and its values, their prototypes, and prototypes that only syntax
  // reaches. Single methods are not looked into; that would cost more than all the rest, and replace nothing.
  const made = [...makers, ...makers.map((maker) => maker.prototype), [][Symbol.iterator](), ""[Symbol.iterator](), /x/[Symbol.matchAll]("")];
  made.push(new Map().keys(), new Set().keys(), [].values().map((x) => x), Iterator.from({ next() {} }));
  for (const name of ownKeys(globalThis)) {
    const value = globalThis[name];
    made.push(value, typeof value === "function" ? value.prototype : undefined);
  }
  const seen = new Set([null, undefined]);
  for (let value of made) {
    while (!seen.has(value) && (typeof value === "object" || typeof value === "function")) {
      seen.add(freeze(value));
      value = getPrototypeOf(value);
    }
  }

  // Whether a file exports rules, and those that no file before it did, as name and function by turns.
  const collect = (file) => {
    const found = [];
    const take = (value) => {
      if (rules.get(value) === false) {
        rules.set(value, true);
        found.push(value.name, value.judge);
      }
      return rules.has(value);
    };
    let any = false;
    for (const name of ownKeys(file)) {
      if (typeof name !== "string") continue;
      const values = Array.isArray(file[name]) ? [...file[name]] : [file[name]];
      const taken = values.filter(take).length;
      any ||= taken > 0;
      if (taken < values.length && (name === "default" || taken > 0)) {
        throw new TypeError(`export ${name} holds something that is not a rule; make it with rule(name, judge)`);
      }
    }
    return [any, found];
  };

  // A rule that no file exports, and that would therefore be silent.
  const silent = () => [...rules].find(([, exported]) => !exported)?.[0].name ?? "";

  // A call, frozen to its depth.
  const still = (call) => {
    const open = [call];
    while (open.length > 0) {
      const value = freeze(open.pop());
      for (const key of ownKeys(value)) {
        if (typeof value[key] === "object" && value[key] !== null) open.push(value[key]);
      }
    }
    return call;
  };

  // What a rule's answer says. Only what allow, deny, review and pass have made is one.
  const read = (value) => {
    if (value instanceof Promise) throw new TypeError("the rule is async; its answer must be there at once");
    if (!answers.has(value)) throw new TypeError("the answer is not made by allow, deny, review or pass");
    return [value.says, value.reason, value.hint];
  };

  // What was thrown, in bounded text: a message and a stack.
  const tell = (thrown) => {
    const part = (value, most) => (typeof value === "string" ? value.slice(0, most) : "");
    if (!(thrown instanceof Error)) return ["something that is no Error", ""];
    return [part(thrown.message, longest / 4), part(thrown.stack, 4 * longest)];
  };
  return [collect, still, read, tell, silent];
};
