// One trajectory: question, verdict, reward, and its spans with what was trained and what was masked.

const KINDS = ["prompt", "think", "code", "interpreter", "answer"];
const TRAINED = new Set(["think", "code", "answer"]);

function isRight(t) {
  return t.reward_parts.accuracy === 1;
}

function ribbonPiece(kind, tokens) {
  const piece = el("i", kind + (TRAINED.has(kind) ? "" : " masked"));
  piece.style.flex = `${tokens} 0 0`;
  return piece;
}

function trajectoryPage(t) {
  const prompt = t.spans.find((s) => s.kind === "prompt");
  const parts = [el("p", "question", shown(t.question)), verdict(t), facts(t), ribbon(t), ribbonKey(t)];
  t.spans.forEach((s, i) => {
    if (s !== prompt || s.text.trim() !== t.question.trim()) parts.push(spanBlock(t, s));
    const last = i + 1 === t.spans.length || t.spans[i + 1].turn !== s.turn;
    const turn = t.turns[s.turn];
    if (last && turn && turn.status && s.kind !== "interpreter") parts.push(el("p", "notes", ...toolResult(turn)));
  });
  if (t.error) parts.push(el("p", "wrong", shown("Failed: " + t.error)));
  return parts;
}

function verdict(t) {
  const right = isRight(t);
  const answered =
    t.extracted === null
      ? el("span", "soft", "no answer found")
      : el("span", "", "answered ", el("code", right ? "right" : "wrong", shown(t.extracted)));
  return el(
    "div",
    "verdict",
    el("b", right ? "right" : "wrong", right ? "\u2713 right" : "\u2717 wrong"),
    answered,
    el("span", "", "gold ", el("code", "", shown(t.gold))),
    t.rule ? el("span", "soft", "by ", shown(t.rule)) : null,
  );
}

function facts(t) {
  const parts = Object.entries(t.reward_parts)
    .map(([name, value]) => `${name} ${compact(value)}`)
    .join(" + ");
  const rows = [["reward", t.reward === null ? "-" : compact(t.reward) + (parts ? ` = ${parts}` : "")]];
  if (t.advantage !== null) rows.push(["advantage", (t.advantage > 0 ? "+" : "") + compact(t.advantage)]);
  rows.push(
    ["ended by", (t.stop_reason || "not ended").replaceAll("_", " ")],
    ["tokens", `${compact(t.num_sampled_tokens)} sampled, ${compact(t.num_context_tokens)} in all`],
  );
  rows.push(
    ["tool calls", String(t.num_tool_calls)],
    ["task", `${t.source ? t.source + " / " : ""}${t.task_id}`],
    ["step", `${t.step}, sample ${t.sample_index} of task ${t.ordinal}`],
  );
  return el(
    "dl",
    "facts-grid",
    ...rows.map(([name, value]) => el("div", "", el("dt", "", name), el("dd", "", shown(value)))),
  );
}

function ribbon(t) {
  return el("div", "ribbon", ...t.spans.map((s) => ribbonPiece(s.kind, s.num_tokens)));
}

function ribbonKey(t) {
  const kinds = KINDS.filter((kind) => t.spans.some((s) => s.kind === kind));
  return el(
    "div",
    "key",
    ...kinds.map((kind) => el("span", "", el("span", "ribbon", ribbonPiece(kind, 1)), kind)),
    el("span", "", "solid: trained, hatched: masked"),
  );
}

function spanBlock(t, s) {
  const trained = TRAINED.has(s.kind);
  const turn = t.turns[s.turn];
  const tag = el(
    "div",
    "tag",
    el("b", "", s.kind),
    `${compact(s.num_tokens)} tokens, ${trained ? "trained" : "masked"}`,
  );
  if (turn && s.kind !== "prompt" && new Set(t.turns.map((x) => x.agent)).size > 1)
    tag.append(el("span", "", shown(`${turn.agent} (${turn.role})`)));
  const node = el("div", `span ${s.kind}${trained ? "" : " masked"}`, tag);
  if (s.kind === "interpreter" && turn && turn.status) tag.append(...toolResult(turn));
  node.append(el("pre", "", shown(s.text)));
  if (s.kind === "interpreter" && turn && turn.stderr)
    node.append(el("details", "", el("summary", "", "standard error"), el("pre", "", shown(turn.stderr))));
  return node;
}

function toolResult(turn) {
  const exit =
    turn.signal !== undefined ? ` (signal ${turn.signal})` : turn.exit_code ? ` (exit ${turn.exit_code})` : "";
  const times =
    `${duration(turn.cpu_seconds || 0)} cpu, ${duration(turn.wall_seconds || 0)} wall` +
    (turn.queue_seconds ? `, ${duration(turn.queue_seconds)} queued` : "");
  return [
    el("span", "badge " + (turn.status === "ok" ? "good" : "bad"), turn.status.replaceAll("_", " ") + exit),
    el("span", "soft", " " + times),
  ];
}
