package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	ports "github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
)

// A script is a block of JavaScript or TypeScript of a page, with the code that the page leaves out.
type script struct {
	page   string
	block  int    // among those of the page
	before string // makes what the block uses
	after  string // checks what the block did
}

// The blocks that Node runs, each with the client of clients/typescript and a server of scriptServer. In all of them
// connected(url) is a client that is open, until(check) waits, and assert is Node's.
var scripts = []script{
	{"clients/typescript/README.md", 0, heardShow, `assert.equal(members, 1); assert.deepEqual(await heard, ["ann", "hi"]); client.close();`},
	{"clients/typescript/README.md", 1, `import { connect } from "@wskit/client";`, `const members: number = (await client.request("room.join", { room: "lobby" })).members; assert.equal(members, 1); client.close();`},
	{"clients/typescript/README.md", 3, open + `const { signal } = new AbortController();`, `assert.equal(reply.members, 1); client.close();`},
	{"clients/typescript/README.md", 4, open + `const bar = { value: 0 };`, `assert.equal(bar.value, 100); assert.equal(file, "the file"); client.close();`},
	{"clients/typescript/README.md", 5, open + `const bar = { value: 0, max: 10 }; const message = { room: "lobby", text: "hi" }; await client.request("room.join", { room: "lobby" });`,
		`await until(() => limits.left("messages") !== undefined && bar.value > 0); client.close();`},
	{"clients/typescript/README.md", 6, open + `const order = {}, idempotencyKey = crypto.randomUUID(); let marked: any; const mark = (fields: any) => marked = fields; const askTheUser = () => {};
type Invalid = { fields: { path: string; rule: string; param?: string }[] };
import { UnknownOutcome, WskitError } from "@wskit/client";`, `assert.equal(marked[0].path, "item"); client.close();`},
	{"clients/typescript/README.md", 7, open + `const reload = (_: string) => {};`, `client.close();`},
	{"clients/typescript/README.md", 8, `import { connect } from "@wskit/client"; const client = connect({ url: server + "/topics?access_token=ann" }); let drawing: number[] = [1];`,
		`await until(() => drawing.length === 0); stop(); client.close();`},
	{"clients/typescript/README.md", 9, `import { connect } from "@wskit/client"; const client = connect({ url: server + "/ws?access_token=ann" }), room = "lobby";`, `await until(async () => await client.request("rooms", {}) === 1); client.close();`},
	{"clients/typescript/README.md", 10, `const said: string[] = [], show = () => {};
console.warn = (text: string) => void said.push(text);
const fetch = async (_: string) => ({ json: async () => ({ $defs: { "event:chat.message": {} } }) });`,
		`await until(() => said.length); assert.equal(said[0], 'wskit: the server declares no event "chat.mesage"; use chat.message'); client.close();`},
	{"clients/typescript/README.md", 11, open + `const draw = (_: (lines: any[]) => any[]) => {}, useConnection = (c: any) => c.state.get(), useLimits = (..._: any[]) => undefined,
	useEvent = (c: any, t: string, f: (line: any) => void) => c.on(t, f), useKeep = (_: any, t: string, o: { open(all: boolean): any; reset(): void }) => {};`, `assert.equal(status, "open"); assert.equal(limits, undefined); client.close();`},
	{"clients/typescript/README.md", 12, `
import { connect as original } from "@wskit/client";
const Page = class extends WebSocket { // sends an Origin
	constructor(url: string, protocols: string[]) { super(url, { protocols, headers: { Origin: server.replace("ws", "http") } } as any); }
} as any;
let client!: ReturnType<typeof original>;
const connect: typeof original = (o) => client = original({ ...o, WebSocket: Page }) as any;
const session = async ({ renew }: { renew: boolean }) => ({ accessToken: renew ? "ann" : "expired" });`,
		`await until(() => client.state.get().status === "open"); client.close();`},
	{"clients/typescript/README.md", 13, open + `const dialog = async (text: string, _: AbortSignal) => text === "Clear?";`, `assert.equal(await client.request("board.clear", {}), true); client.close();`},
	{"clients/typescript/README.md", 14, open, `await client.request("room.watch", { room: "lobby" }); await until(() => [...members.values()][0]?.user === "ann"); client.close();`},
	{"docs/moderation.md", 0, `
import { connect } from "@wskit/client";
const client = connect({ url: server + "/moderated", token: () => "moderator1" });
const hidden = []; let said;
const hide = (pos, replacement) => hidden.push([pos, replacement]);
client.on("chat.said", (_, meta) => said = meta.pos);
await client.request("room.enter", { room: "lobby" });
await client.request("chat.say", "something bad");`, `
await until(() => said);
await client.request("message.remove", { room: "lobby", pos: said });
await until(() => hidden.length);
assert.deepEqual(hidden, [[said, { removedBy: "moderator1" }]]);
client.close();`},
	{"docs/runs.md", 0, `
import { connect } from "@wskit/client";
const client = connect({ url: server + "/runs" }), text = "why?", id = undefined;
let shown = "", end;
const show = (t) => shown += t, ended = (e) => end = e;
const ask = async () => assert.fail(), hide = () => assert.fail(), clear = () => assert.fail();`, `
assert.equal(shown, "You have asked: why? ");
assert.deepEqual(end, { state: "done", result: { words: 4 } });
client.close();`},
	{"docs/recipes/README.md", 0, recipe("stream") + `const words = [], show = (w) => words.push(w), question = "why?";`,
		`assert.equal(text, "You have asked: why?"); assert.deepEqual(words.join(" "), text); client.close();`},
	{"docs/recipes/README.md", 1, recipe("positions") + `const drawn = [], draw = (p) => drawn.push(p);`,
		`await until(() => drawn.length); assert.deepEqual([drawn[0].x, drawn[0].y], [3, 4]); client.close();`},
	{"docs/recipes/README.md", 2, recipe("inbox") + `const heard = [], show = (...l) => heard.push(l);`, `
await client.request("letter.send", { to: "ann", text: "hi" });
await until(() => heard.length);
assert.deepEqual(heard, [["ann", "hi"]]);
client.close();`},
	{"docs/recipes/README.md", 3, recipe("job") + `const bar = {}, sessionStorage = {};`, `
await until(() => bar.value > 10);
const seen = [], again = await connected(recipes.job); // the page, loaded again
again.on("job.progressed", ({ percent }) => seen.push(percent));
await again.request("job.follow", sessionStorage.job);
await until(() => seen.includes(100));
assert.equal(seen[0], 10);
client.close();
again.close();`},
	{"docs/requests.md", 0, open, `await assert.rejects(call, { code: "CANCELLED" }); client.close();`},
	{"docs/requests.md", 1, open + `const order = { item: "tea" };`, `client.close();`},
	{"docs/topics.md", 0, `
import { connect } from "@wskit/client";
const client = connect({ url: server + "/topics?access_token=ann" });
const board = "7", strokes = []; let cleared = 0;
const clear = () => cleared++;
client.on("stroke", (s) => strokes.push(s));`, `
await until(() => strokes.length === 1);
assert.equal(cleared, 1);
client.send("cut", {}); // the connection
await until(() => client.state.get().status === "open" && client.state.get().connections === 2);
await client.request("draw", { board });
await until(() => strokes.length === 2);
assert.equal(cleared, 1);
client.close();`},
	{"docs/coming-from/gorilla.md", 0, `
const socket = new WebSocket(server + "/rooms?name=ann");
await new Promise((opened) => socket.onopen = opened);
const answer = new Promise((got) => socket.onmessage = (e) => got(JSON.parse(e.data)));`, `assert.equal((await answer).type, "join.reply"); socket.close();`},
	{"docs/coming-from/README.md", 0, comingFrom, cameFrom},
	{"adapters/cfdo/README.md", 0, `
const env = { LIMITS_SECRET: "s", LIMITS: { fetch: async (url, { method, body }) => {
	assert.deepEqual([new URL(url).pathname, method, JSON.parse(body).cost], ["/v1/check", "POST", 1]);
	return Response.json({ allowed: true, remaining: 19, resetAt: 1 });
} } };`, `assert.deepEqual([allowed, remaining, resetAt], [true, 19, 1]);`},
}

const (
	open       = "const client = await connected(\"/ws?access_token=ann\");\n"
	heardShow  = "let hear: any; const heard = new Promise((h) => hear = h), show = (...a: any[]) => hear(a);\n"
	comingFrom = "let hear; const heard = new Promise((h) => hear = h), show = (...a) => hear(a), form = { text: { value: \"hi\" } };\n"
	cameFrom   = "await until(() => client.state.get().status === \"open\"); form.onsubmit(); assert.deepEqual(await heard, [\"ann\", \"hi\"]); client.close();\n"
)

// recipe is the beginning of a script for a program of examples/.
func recipe(program string) string {
	return "const client = await connected(recipes." + program + ");\n"
}

// Blocks that are not run: those of other libraries, and types, which are checked with the blocks that use them.
var notRun = map[string]string{
	"clients/typescript/README.md 2": "contract.ts of the block before",
	"docs/contract.md 0":             "types.ts",
	"docs/coming-from/socketio.md 0": "Socket.IO",
	"docs/coming-from/socketio.md 1": "Socket.IO",
	"docs/coming-from/ws-kit.md 0":   "ws-kit",
}

var scriptBlock = regexp.MustCompile("(?ms)^```(js|ts|tsx)\n(.*?)^```$")

// Every block of JavaScript and TypeScript of the pages runs in Node and does what the page says; those with types pass
// the compiler.
func TestScriptsOfThePages(t *testing.T) {
	packages, err := filepath.Abs("../clients/typescript")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(packages, "node_modules", ".bin")
	if _, err := os.Stat(filepath.Join(bin, "tsc")); err != nil || runtime.GOOS == "windows" {
		ports.Missing(t, "the packages of clients/typescript are not installed; make typescript installs them")
	}
	server := scriptServer(t)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "node_modules", "@wskit"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(packages, filepath.Join(dir, "node_modules", "@wskit", "client")); err != nil {
		t.Fatal(err)
	}
	write("package.json", `{"type": "module"}`)
	write("tsconfig.json", `{"compilerOptions": {"target": "ES2024", "module": "NodeNext", "lib": ["ES2024", "DOM", "DOM.Iterable"], "types": [], "noEmit": true, "strict": true},
		"files": ["types.ts", `+strings.Join(typed(t), ", ")+`]}`)
	write("kit.js", strings.NewReplacer("SERVER", server, "RECIPES", startRecipes(t)).Replace(kit))
	write("kit.d.ts", `export const server: string, recipes: Record<string, string>, assert: any;
export function until(check: () => unknown): Promise<void>;
export function connected(path: string): Promise<import("@wskit/client").Client>;`)
	main := ""
	for _, s := range scripts {
		name, text := s.name(), s.text(t, server)
		write(name, text)
		main += fmt.Sprintf("await run(%q);\n", name)
	}
	write("main.js", `const run = async (name) => { console.error(name); await import("./" + name); };`+"\n"+main+"process.exit(0);\n")
	write("contract.ts", blocksOf(t, "clients/typescript/README.md")[2][2])
	write("types.ts", `interface Join { room: string } interface Joined { members: number } interface ChatTyping { text: string }
interface Message { text: string } interface Confirm { text: string } interface Confirmed { yes: boolean }
`+blocksOf(t, "docs/contract.md")[0][2]+`import { connect } from "@wskit/client";
export const client = connect<Contract>({ url: "/ws" });
`)

	run := func(name string, args ...string) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*hangGuard) // there are many scripts
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	run("node", "--disable-warning=ExperimentalWarning", "--preserve-symlinks", "main.js")
	run("tsc", "--project", dir)
}

// name is the name of a script's file.
func (s script) name() string {
	base := strings.NewReplacer("/", "-", ".md", "").Replace(s.page)
	extension := "js"
	if strings.HasPrefix(s.page, "clients") || s.page == "docs/requests.md" {
		extension = "ts"
	}
	return fmt.Sprintf("%s-%d.%s", base, s.block, extension)
}

// typed are the names of the scripts in TypeScript, for a list in JSON.
func typed(t *testing.T) (names []string) {
	for _, s := range scripts {
		if strings.HasSuffix(s.name(), ".ts") {
			names = append(names, fmt.Sprintf("%q", s.name()))
		}
	}
	return names
}

// text is the whole script. Its client connects to the server.
func (s script) text(t *testing.T, server string) string {
	block := blocksOf(t, s.page)[s.block][2]
	block = strings.NewReplacer(
		`"/wskit.js"`, `"@wskit/client"`,
		`"/ws?name=ann"`, `"`+server+`/rooms?name=ann"`,
		`"/ws"`, `"`+server+`/ws?access_token=ann"`,
		`"wss://api.example.com/ws"`, `"`+server+`/ws"`,
	).Replace(block)
	return `import { assert, connected, recipes, server, until } from "./kit.js"; assert; connected; recipes; server; until;` + "\n" + s.before + "\n" + block + "\n" + s.after + "\nexport {};\n"
}

const kit = `
import strict from "node:assert/strict";
import { connect } from "@wskit/client";

export const assert = strict;
export const server = "SERVER";
export const recipes = RECIPES;

export async function until(check) {
	const end = Date.now() + 120_000; // only ends a test that hangs
	while (!await check()) await new Promise((later) => setTimeout(later, 5)).then(() => assert(Date.now() < end, "never: " + check));
}

export async function connected(to) {
	const client = connect({ url: new URL(to, server).href });
	await until(() => client.state.get().status === "open");
	return client;
}
`

func blocksOf(t *testing.T, page string) [][]string {
	t.Helper()
	return scriptBlock.FindAllStringSubmatch(read(t, filepath.Join("..", page)), -1)
}

// Every block is run or is in the list of those that are not.
func TestNoScriptIsForgotten(t *testing.T) {
	pages, _ := repository(t)
	known := map[string]bool{}
	for _, s := range scripts {
		known[fmt.Sprint(s.page, " ", s.block)] = true
	}
	for page, text := range pages {
		if runByBrowserTests[page] {
			continue
		}
		for i := range scriptBlock.FindAllString(text, -1) {
			if id := fmt.Sprint(page, " ", i); !known[id] && notRun[id] == "" {
				t.Errorf("block %s is not run", id)
			}
		}
	}
}

// startRecipes starts the programs that the recipes show, and returns their URLs as JSON.
func startRecipes(t *testing.T) string {
	t.Helper()
	dir, urls := t.TempDir(), make(map[string]string)
	names := []string{"stream", "positions", "inbox", "job"}
	args := []string{"build", "-o", dir}
	for _, name := range names {
		args = append(args, "../examples/"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range names {
		addr := ports.FreeAddr(t)
		cmd := exec.Command(filepath.Join(dir, name))
		cmd.Env = append(os.Environ(), "ADDR="+addr)
		ports.DieWithParent(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		urls[name] = "ws://" + addr + "/?access_token=ann"
	}
	text, err := json.Marshal(urls)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parrots answers questions slowly, in runs.
func parrots(t *testing.T) *router.Router {
	r := router.New()
	runs, err := run.New(r)
	if err != nil {
		t.Fatal(err)
	}
	type question struct {
		Text string `json:"text"`
	}
	run.Handle(runs, "ask", func(_ context.Context, q question, w *run.Writer) error {
		words := strings.Fields("You have asked: " + q.Text)
		for _, word := range words {
			if err := errors.Join(w.Text(word+" "), w.Event(word)); err != nil { // an event is an output of its own
				return err
			}
		}
		return w.Done(map[string]int{"words": len(words)})
	})
	return r
}

// scriptServer has the messages that the scripts use, and returns its URL.
func scriptServer(t *testing.T) string {
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			token := ingress.Token(req)
			if token != "ann" {
				return ingress.Identity{}, errors.Unauthenticated.New("the token is not valid")
			}
			return ingress.Identity{User: token}, nil
		},
	})
	r.Use(ratelimit.New(limit.New(memory.NewStore(), limit.TokenBucket{Capacity: 1000, Refill: 1000, Per: time.Second}), ratelimit.PerUserOrIP, ratelimit.Options{Announce: "messages"}))
	type inRoom struct {
		Room string `json:"room"`
		Text string `json:"text,omitzero"`
	}
	joined := ingress.NewKey[int]()
	router.RPC(r, "room.join", func(c *router.Context, q inRoom) (map[string]int, error) {
		joined.Set(c.Identity, 1)
		return map[string]int{"members": 1}, c.Subscribe("room:" + q.Room)
	})
	router.RPC(r, "rooms", func(c *router.Context, _ struct{}) (int, error) {
		n, _ := joined.Get(c.Identity)
		return n, nil
	})
	router.RPC(r, "room.watch", func(c *router.Context, q inRoom) (struct{}, error) {
		return struct{}{}, errors.Join(c.Join("room:"+q.Room, nil), c.WatchPresence("room:"+q.Room, router.WatchOptions{}))
	})
	router.RPC(r, "chat.send", func(c *router.Context, q inRoom) (struct{}, error) {
		return struct{}{}, c.Publish("room:"+q.Room, "chat.message", Said{From: c.Identity.User, Text: q.Text})
	})
	router.RPC(r, "export", func(c *router.Context, _ struct{ Year int }) (string, error) {
		return "the file", c.Progress(map[string]int{"percent": 100})
	})
	router.RPC(r, "report.get", func(c *router.Context, _ struct{}) (string, error) {
		<-c.Done()
		return "", c.Err()
	})
	router.RPC(r, "order.place", func(*router.Context, struct {
		Item string `json:"item" validate:"required"`
	}) (struct{}, error) {
		return struct{}{}, nil
	})
	confirm := router.DeclareQuestion[Confirm, struct {
		Yes bool `json:"yes"`
	}](r, "board.confirm")
	router.RPC(r, "board.clear", func(c *router.Context, _ struct{}) (bool, error) {
		answer, err := confirm.Ask(c, c.Conn(), Confirm{Text: "Clear?"})
		return answer.Yes, err
	})

	board := rooms()
	draw := func(*router.Context, Open) (struct{}, error) {
		return struct{}{}, board.Publish(t.Context(), "board:7", "stroke", struct{}{})
	}
	router.RPC(board, "draw", draw)
	router.On(board, "cut", func(c *router.Context, _ struct{}) error {
		c.Conn().Close(errors.CloseGoingAway, "")
		return nil
	})
	if _, err := draw(nil, Open{}); err != nil {
		t.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("/rooms", newRooms())
	mux.Handle("/topics", board)
	mux.Handle("/moderated", moderated())
	mux.Handle("/runs", parrots(t))
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.Close()
	})
	return "ws" + strings.TrimPrefix(server.URL, "http")
}
