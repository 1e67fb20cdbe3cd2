package server

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// tokenOf is a token with the secret "secret-" and its id.
func tokenOf(id string) Token {
	return Token{ID: id, SHA256: sha256.Sum256([]byte("secret-" + id))}
}

// bearer is the header line that goes with it.
func bearer(id string) string { return "Authorization: Bearer " + id + ".secret-" + id }

func TestNewTenantsSaysEverythingThatIsWrong(t *testing.T) {
	long := strings.Repeat("x", 65)
	_, err := NewTenants([]Tenant{
		{ID: "good", Allow: []string{"/"}, Tokens: []Token{tokenOf("a"), tokenOf("b")}},
		{ID: "good", Tokens: []Token{tokenOf("b")}},
		{ID: ""}, {ID: "a b"}, {ID: "a\r\nX: y"}, {ID: long}, {ID: `a"b`}, {ID: "a@1"},
		{ID: "w", Weight: 1001}, {ID: "neg", Weight: -1, QueueBytes: -1, QueueTarget: -1, MaxInflight: -1, MaxConnections: -1, QueueRequests: -1, QueueDeadline: -1},
		{ID: "p", Allow: []string{"x", "", "/" + strings.Repeat("y", 1025), "/a\x00"}},
		{ID: "t", Tokens: []Token{{ID: "no-hash"}, {ID: "a.b", SHA256: [32]byte{1}}, {ID: long, SHA256: [32]byte{1}}}},
	})
	for _, want := range []string{
		`tenant "good" is there twice`, `token "b" of tenant "good" is one of tenant "good" already`,
		`tenant "": an id is 1 to 64`, `tenant "a b": an id`, `tenant "a\r\nX: y": an id`, `tenant "` + long + `": an id`, `tenant "a\"b": an id`, `tenant "a@1": an id`,
		`tenant "w": weight 1001`, `tenant "neg": weight -1`, "queue of -1 bytes", "queue target -1ns", "max_inflight -1", "max_connections -1", "queue of -1 requests", "queue deadline -1ns",
		`allow "x" does not begin with a slash`, `allow "" does not`, "no key begins so", `allow "/a\x00"`,
		`token "no-hash" has no SHA-256`, `token "a.b": an id`, `token "` + long + `": an id`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

// What the caller does with its slices afterwards does not change the table.
func TestTenantsAreACopy(t *testing.T) {
	allow, tokens := []string{"/a"}, []Token{tokenOf("a")}
	table := must(NewTenants([]Tenant{{ID: "x", Allow: allow, Tokens: tokens}}))
	allow[0], tokens[0] = "/", Token{}
	if got := table.list[0]; got.Allow[0] != "/a" || got.Tokens[0].ID != "a" {
		t.Errorf("the table has become %+v", got)
	}
}

func TestAllow(t *testing.T) {
	for _, tt := range []struct {
		allow string // separated by spaces
		key   string
		want  bool
	}{
		{"", "", false}, {"", "k", false}, {"/", "", true}, {"/", "k", true}, {"/x /", "k", true},
		{"/a", "a", true}, {"/a", "ab", true}, {"/a/", "a", false}, {"/a/", "a/b", true}, {"/a/", "b/a/", false},
		{"/a /b/", "b/", true}, {"/a /b/", "c", false}, {"//", "/a", true}, {"//", "a", false}, {"/A", "a", false}, {"/\xff", "\xff\x01", true},
	} {
		w := testWorker(Config{AnonymousTenant: "x", Tenants: must(NewTenants([]Tenant{{ID: "x", Allow: strings.Fields(tt.allow)}}))})
		who, _ := w.roster.Load().authenticate(nil)
		if got := who.t.allows([]byte(tt.key)); got != tt.want {
			t.Errorf("allow [%s], key %q: %v, want %v", tt.allow, tt.key, got, tt.want)
		}
	}
}

func TestAnonymousMustBeInTheTable(t *testing.T) {
	table := must(NewTenants([]Tenant{{ID: "a", Allow: []string{"/"}, Tokens: []Token{tokenOf("a")}}}))
	for _, tt := range []struct {
		anonymous string
		table     *Tenants
		want      string // who comes without credentials
	}{{"", nil, ""}, {"public", nil, "public"}, {"", table, ""}, {"public", table, ""}, {"a", table, "a"}} {
		w := testWorker(Config{AnonymousTenant: tt.anonymous, Tenants: tt.table})
		who, why := w.roster.Load().authenticate(nil)
		if who.ID() != tt.want || (why == faultNone) != (tt.want != "") {
			t.Errorf("anonymous %q, a table: %v: served as %q, %q; want %q", tt.anonymous, tt.table != nil, who.ID(), why.text(), tt.want)
		}
	}
}

// A table that is replaced counts from the next request of every connection, those
// that are open included, and what is under way is finished.
func TestSetTenantsOnLiveConnections(t *testing.T) {
	table := func(tenants ...Tenant) *Tenants { return must(NewTenants(tenants)) }
	old := table(Tenant{ID: "a", Allow: []string{"/"}, Tokens: []Token{tokenOf("one"), tokenOf("two")}})
	r := startRig(t, func(c *Config) { c.Tenants, c.Rings = old, 2 })
	content := pattern(8<<20, 1)
	r.put("large", content)
	r.put("x", []byte("x"))
	conns := make([]*client, 8)
	for i := range conns {
		conns[i] = r.dial()
	}
	want := func(why, token, path string, status int) {
		t.Helper()
		for _, c := range conns {
			if resp, _ := c.get(path, bearer(token)); resp.StatusCode != status {
				t.Fatalf("%s: %s with token %s is answered %d, want %d", why, path, token, resp.StatusCode, status)
			}
		}
	}
	want("before", "one", "/x", 200)
	busy := r.dial()
	busy.conn.SetReadBuffer(16 << 10)
	busy.send(getRequest("/large", bearer("one")))
	busy.r.Peek(1)
	for _, tt := range []struct {
		why            string
		table          *Tenants
		one, two, none int
	}{
		{"a token is revoked", table(Tenant{ID: "a", Allow: []string{"/"}, Tokens: []Token{tokenOf("two")}}), 401, 200, 401},
		{"its rights are taken", table(Tenant{ID: "a", Allow: []string{"/l"}, Tokens: []Token{tokenOf("two")}}), 401, 403, 401},
		{"the tenant is removed", table(), 401, 401, 401},
		{"there are no tenants", nil, 401, 401, 200},
		{"all is as before", old, 200, 200, 401},
	} {
		if err := r.s.SetTenants(tt.table); err != nil {
			t.Fatal(err)
		}
		want(tt.why, "one", "/x", tt.one)
		want(tt.why, "two", "/x", tt.two)
		for _, c := range conns {
			if resp, _ := c.get("/x"); resp.StatusCode != tt.none {
				t.Fatalf("%s: without credentials %d, want %d", tt.why, resp.StatusCode, tt.none)
			}
		}
	}
	_, body := busy.reply("GET")
	wantBody(t, "the response under way", body, content)
}

// Only authenticate makes a TenantContext that is somebody: no other code of the
// package has a literal of it with a value, or reaches for its field to set it.
func TestOnlyAuthenticateMakesATenantContext(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	fset, made := token.NewFileSet(), 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(fset, f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range syntax.Decls {
			fn, isFunc := d.(*ast.FuncDecl)
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if name, ok := n.Type.(*ast.Ident); ok && name.Name == "TenantContext" && len(n.Elts) > 0 {
						made++
						if !isFunc || fn.Name.Name != "authenticate" {
							t.Errorf("%v makes a TenantContext", fset.Position(n.Pos()))
						}
					}
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						if s, ok := left.(*ast.SelectorExpr); ok && s.Sel.Name == "t" {
							t.Errorf("%v sets a field that may be a TenantContext's", fset.Position(n.Pos()))
						}
					}
				}
				return true
			})
		}
	}
	if made != 2 {
		t.Errorf("%d literals of a TenantContext found, want the 2 of authenticate", made)
	}
}

var credentialSyntax = regexp.MustCompile(`^(?i:bearer) +([!-\-/-~]{1,64})\.([!-~]{1,128})$`)

// parseCredential against a regular expression.
func FuzzCredential(f *testing.F) {
	for _, r := range tableRequests() {
		if r.authorization != nil {
			f.Add(r.authorization)
		}
	}
	f.Add([]byte("Bearer " + strings.Repeat("i", 64) + "." + strings.Repeat("s", 128)))
	f.Add([]byte("Bearer " + strings.Repeat("i", 65) + "." + strings.Repeat("s", 129)))
	f.Fuzz(func(t *testing.T, in []byte) {
		id, secret, ok := parseCredential(in)
		m := credentialSyntax.FindSubmatch(in)
		if ok != (m != nil) || ok && (!bytes.Equal(id, m[1]) || !bytes.Equal(secret, m[2])) {
			t.Errorf("parseCredential(%q) = %q, %q, %v; want %q", in, id, secret, ok, m)
		}
	})
}

// Nothing allocates in finding out who somebody is, known or not.
func TestAuthenticateDoesNotAllocate(t *testing.T) {
	r := authBench(1000)
	for _, credential := range []string{"Bearer t500.secret-t500", "Bearer t500.wrong", "Bearer unknown.secret", "Basic x"} {
		b := []byte(credential)
		if n := testing.AllocsPerRun(100, func() { r.authenticate(b) }); n != 0 {
			t.Errorf("%s: %v allocations", credential, n)
		}
	}
}

// testWorker is a worker without loops.
func testWorker(c Config) *worker {
	c = c.withDefaults()
	c.Rings = max(c.Rings, 1)
	return must(newWorker(&c, nil))
}

func authBench(tenants int) *roster {
	var list []Tenant
	for i := range tenants {
		list = append(list, Tenant{ID: fmt.Sprint("tenant", i), Allow: []string{"/"}, Tokens: []Token{tokenOf(fmt.Sprint("t", i))}})
	}
	return testWorker(Config{Tenants: must(NewTenants(list))}).roster.Load()
}

// The secret is as long as "talon token new" makes it.
func BenchmarkAuthenticate(b *testing.B) {
	r := authBench(1000)
	for name, id := range map[string]string{"wrong": "t500", "unknown": "nobody"} {
		credential := []byte("Bearer " + id + "." + strings.Repeat("s", 43))
		b.Run(name, func(b *testing.B) {
			defer reportCPU(b)()
			for b.Loop() {
				r.authenticate(credential)
			}
		})
	}
}

// TestVisible: every byte value at every place of words and parts of words, against the definition.
func TestVisible(t *testing.T) {
	for n := range 20 {
		b := bytes.Repeat([]byte("~"), n)
		if !visible(b) {
			t.Errorf("%q is not visible", b)
		}
		for i := range n {
			for c := range 256 {
				b[i] = byte(c)
				if want := c >= '!' && c <= '~'; visible(b) != want {
					t.Errorf("%q: %v, want %v", b, !want, want)
				}
			}
			b[i] = '!'
		}
	}
}
