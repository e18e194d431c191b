// Rules for skep, in TypeScript. Put files into .skep/rules/ and this one beside them:
//
//   /// <reference path="./skep.d.ts" />
//   export default rule("no-force-push", (call) =>
//     call.tool === "shell.run" && call.command?.includes("--force")
//       ? deny("no force pushes", "push without --force")
//       : pass());
//
// A file exports rules, one by one or in arrays, or is imported by a file that does. Each rule is asked about each call that
// nothing else has denied, whatever the others say. Deny is final; a review outweighs an allow.
//
// An answer follows from the call alone. There is no clock, chance, file, network, eval or dynamic import, nothing is remembered
// from call to call, and rules are not async. Built-in objects are frozen. All rules together have 100 ms of processor
// time for a call, and 96 MiB. A rule that throws, overruns or answers with anything else denies the call.
//
// Types are only stripped: write `import type` for types, and no enums or namespaces. Imports are relative (`./helper`).

/** What is about to happen. Frozen to its depth. */
interface Call {
  /** As in policy files: `fs.write`, `shell.run`, `http.request`. */
  readonly tool: string;
  /** Where the paths of the call really lead: relative to the project, or absolute when outside. */
  readonly paths: readonly string[];
  /** Program and arguments, for tools that run one. */
  readonly command?: readonly string[];
  /** Without port. */
  readonly host?: string;
  /** Of an HTTP request. */
  readonly method?: string;
  readonly port?: number;
  /** Bytes that will be read or written, where that is known. */
  readonly size?: number;
  /** The process that calls, by name. */
  readonly caller: string;
  readonly role: string;
  readonly zone: string;
  readonly mode: "ask" | "act";
  readonly workflow_state: string;
  /** strict, explore or debug; empty where tests need not come first. */
  readonly session_mode: string;
  /** What the tool is given, with secrets taken out. */
  readonly input: unknown;
}

declare const answered: unique symbol;
/** Made by `allow`, `deny`, `review` and `pass`, and by nothing else. */
interface Answer {
  readonly [answered]: true;
}
declare const ruled: unique symbol;
/** Made by `rule`. */
interface Rule {
  readonly [ruled]: true;
}

/** A rule. Its name is 1 to 64 of `a-z 0-9 . _ -` and used once. */
declare function rule(name: string, judge: (call: Call) => Answer): Rule;
/** Yes, unless somebody else denies or wants a review. */
declare function allow(reason: string): Answer;
/** No. The hint says what to do instead. */
declare function deny(reason: string, hint?: string): Answer;
/** A person shall decide. */
declare function review(reason: string): Answer;
/** Nothing to say about this call. */
declare function pass(): Answer;
