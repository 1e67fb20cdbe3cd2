package policy

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// whole is a file that writes every field there is.
const whole = `
tenants:
  - id: serving
    class: gold
    allow: ["/"]
    dialect: s3
    tokens:
      - {id: s1, sha256: "` + hash1 + `"}
      - {id: s2, sha256: "` + hash2 + `"}
    queue: {requests: 100, deadline: 2s}
    limits:
      read_iops:           {rate: 20000/s, burst: 2000, local_burst: 500}
      client_egress_bytes: {rate: 400MiB/s, burst: 64MiB, local_burst: 8MiB, soft_rate: 300MiB/s}
  - id: batch
    limits:
      client_egress_bytes: {enabled: false, soft_rate: none, mode: off}
classes:
  gold: {weight: 4, max_inflight: 256, queue: {bytes: 64MiB, target: 5ms}}
defaults:
  weight: 1
  max_connections: 1024
  queue: {requests: 7, deadline: 1s}
  allow: [/public/, /shared/]
  limits:
    client_egress_bytes: {rate: 1MB/s, burst: 1MiB, local_burst: 65536, soft_rate: 9/s, on_limit: ban, ban: {for: 10s, mode: close}}
ring_epoch: 3
peers: [{id: w1, addr: "127.0.0.1:7001"}, {id: w2, addr: "[::1]:7001"}]
`

const (
	hash1 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	hash2 = "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"
)

func mustParse(t *testing.T, text string) *Set {
	t.Helper()
	s, err := Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWholeFile(t *testing.T) {
	first := Token{ID: "s1"}
	for i := range first.SHA256 {
		first.SHA256[i] = []byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}[i%8]
	}
	second := Token{ID: "s2"}
	for i := range second.SHA256 {
		second.SHA256[i] = 0xff
	}
	egress := func(tenant string) qos.Policy {
		return qos.Policy{Tenant: tenant, Metric: qos.ClientEgressBytes, OnLimit: qos.Ban, BanFor: 10 * time.Second, BanMode: qos.BanClose}
	}
	serving, batch := egress("serving"), egress("batch")
	serving.Enabled, serving.Rate, serving.Burst, serving.LocalBurst, serving.SoftRate = true, 400<<20, 64<<20, 8<<20, 300<<20
	batch.Mode, batch.Rate, batch.Burst, batch.LocalBurst = qos.Off, 1e6, 1<<20, 65536
	want := &Set{
		Tenants: []Tenant{{
			ID: "serving", Class: "gold", Weight: 4, Dialect: S3, Allow: []string{"/"}, Tokens: []Token{first, second},
			Queue:       Queue{Requests: 100, Bytes: 64 << 20, Deadline: 2 * time.Second, Target: 5 * time.Millisecond},
			MaxInflight: 256, MaxConnections: 1024,
			Limits: []qos.Policy{
				{Tenant: "serving", Metric: qos.ReadIOPS, Rate: 20000, Burst: 2000, LocalBurst: 500, Enabled: true},
				serving,
			},
		}, {
			ID: "batch", Weight: 1, Allow: []string{"/public/", "/shared/"}, MaxConnections: 1024,
			Queue:  Queue{Requests: 7, Deadline: time.Second},
			Limits: []qos.Policy{batch},
		}},
		RingEpoch: 3,
		Peers:     []Peer{{"w1", "127.0.0.1:7001"}, {"w2", "[::1]:7001"}},
	}
	if got := mustParse(t, whole); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// TestWordsOfTheLimiter: the index of a word is the value of qos.
func TestWordsOfTheLimiter(t *testing.T) {
	for path, want := range map[string][]any{
		"mode": {qos.Enforce, qos.Shadow, qos.Off}, "on_limit": {qos.Pace, qos.Reject, qos.Ban}, "ban.mode": {qos.BanError, qos.BanClose},
	} {
		f := fields["limits.read_iops."+path]
		if len(f.words) != len(want) {
			t.Fatalf("%s has %d words, want %d", path, len(f.words), len(want))
		}
		for i, v := range want {
			if fmt.Sprint(v) != fmt.Sprint(i) {
				t.Errorf("%s: %s is %d here and %v there", path, f.words[i], i, v)
			}
		}
	}
}

// TestProblems: every fault of a file, with its line, in order.
func TestProblems(t *testing.T) {
	const good = "tenants: [{id: a}]\n" // line 1, so that the rest is not overshadowed
	limit := func(text string) string {
		return good + "defaults: {limits: {client_egress_bytes: {rate: 1MiB/s, burst: 1MiB, local_burst: 1MiB, " + text + "}}}"
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "1: the file is empty: a policy names its tenants"},
		{"only a comment", "# tenants\n", "1: the file is empty"},
		{"text", "hello", "1: a policy is a mapping"},
		{"a list", "- id: a", "1: a policy is a mapping"},
		{"no tenants", "defaults: {weight: 1}", "1: no tenants: every request would be answered 401"},
		{"an empty list of tenants", "tenants: []", "1: no tenants"},
		{"tenants as a mapping", "tenants: {a: b}", "1: tenants is a list"},
		{"a tenant as text", "tenants:\n- a\n", "2: a tenant is a mapping"},
		{"not YAML", "tenants: [\n", "2: not YAML: did not find expected node content"},
		{"not YAML, further down", "tenants:\n  - id: a\n   x: y\n", "2: not YAML: did not find expected '-' indicator"},
		{"not YAML, a tab", "tenants:\n- id: a\n\tweight: 1\n", "2: not YAML: found a tab character that violates indentation"},
		{"not YAML, a quote", "tenants:\n- id: a\n- id: 'b\n", "3: not YAML: found unexpected end of stream"},
		{"two documents", good + "---\n" + good, "2: a second document begins; a policy is one"},
		{"unknown", good + "tenant: []", `2: unknown field "tenant"; a policy has tenants, classes, defaults, ring_epoch, peers`},
		{"doubled", good + "\ntenants: [{id: b}]", "3: tenants is written twice, first in line 1"},
		{"doubled below", good + "defaults:\n  queue:\n    bytes: 1\n    bytes: 2", "5: bytes is written twice, first in line 4"},
		{"merge key", good + "defaults: &d {weight: 1}\nclasses: {x: {<<: *d}}", `3: unknown field "<<"; a class has`},
		{"reference", good + "defaults: &d {weight: 1}\nclasses: {x: *d}", "3: *d: references are not taken; write the value"},
		{"reference as a value", "tenants: [{id: &i a, class: *i}]", "1: *i: references are not taken"},
		{"tag", good + "defaults: {weight: !mine 4}", "2: weight: tags (!mine) are not taken"},

		{"no id", "tenants:\n- weight: 1\n", "2: a tenant without an id; write  id: NAME"},
		{"number as id", "tenants:\n- id: 42\n", "2: id: 42 is not text; put it in quotes"},
		{"bad id", "tenants:\n- id: a b\n", `2: id "a b": use up to 64 letters, digits`},
		{"long id", "tenants:\n- id: " + strings.Repeat("x", 65) + "\n", `2: id "xxx`},
		{"id twice", "tenants:\n- id: a\n- id: b\n- id: a\n", "4: tenant a is there twice, first in line 2"},
		{"no such class", "tenants:\n- id: a\n  class: gold", `3: class "gold": there is no such class in this file`},
		{"class with a bad name", good + "classes: {a b: {}}", `2: class "a b": use up to 64 letters`},
		{"class with a number for a name", good + "classes: {7: {}}", `2: classes: the name "7" is not text; put it in quotes`},
		{"a class with tokens", good + "classes: {x: {tokens: []}}", `2: unknown field "tokens"; a class has weight, allow, dialect, queue, max_inflight, max_connections, limits`},

		{"zero weight", good + "defaults: {weight: 0}", "2: weight: zero is refused, it could mean nothing or everything; remove the line to inherit it"},
		{"heavy", good + "defaults: {weight: 1001}", "2: weight: 1001 is outside of 1 to 1000"},
		{"negative", good + "defaults: {weight: -1}", `2: weight: "-1" is not a whole number`},
		{"octal", good + "defaults: {weight: 0o10}", `2: weight: "0o10" is not a whole number`},
		{"fraction", good + "defaults: {weight: 1.5}", `2: weight: "1.5" is not a whole number`},
		{"no value", good + "defaults:\n  weight:\n", "3: weight has no value; write one, or remove the line to inherit it"},
		{"a list for a number", good + "defaults: {weight: [1]}", "2: weight takes one value"},
		{"a number for a group", good + "defaults: {queue: 5}", "2: queue is a mapping"},
		{"unknown in a group", good + "defaults: {queue: {request: 5}}", `2: unknown field "request"; queue has requests, bytes, deadline, target`},
		{"zero requests", good + "defaults: {queue: {requests: 0}}", "2: requests: zero is refused"},
		{"ambiguous size", good + "defaults: {queue: {bytes: 64K}}", `2: bytes: "64K" is not a size`},
		{"bare duration", good + "defaults: {queue: {deadline: 2}}", `2: deadline: "2" is not a duration; write 500ms, 2s or 10m`},
		{"negative duration", good + "defaults: {queue: {deadline: -2s}}", `2: deadline: -2s is outside of 1ms to 1h0m0s`},
		{"target above the deadline", "tenants:\n- id: a\n  queue: {deadline: 1s, target: 1s}", "3: target 1s is not under the deadline, 1s"},
		{"target above an inherited deadline", "tenants:\n- id: a\n  queue: {target: 1s}\ndefaults: {queue: {deadline: 20ms}}", "3: target 1s is not under the deadline, 20ms"},

		{"allow without a slash", "tenants:\n- id: a\n  allow:\n  - /ok/\n  - no\n", `5: allow "no": a prefix of a path begins with a slash`},
		{"allow twice", "tenants:\n- id: a\n  allow: [/a, /a]", `3: allow: "/a" is written twice`},
		{"allow one", "tenants:\n- id: a\n  allow: /", "3: allow is a list"},
		{"allow nothing in particular", "tenants:\n- id: a\n  allow: [~]", "3: allow has no value"},
		{"allow a line end", "tenants:\n- id: a\n  allow: [\"/\\n\"]", `3: allow "/\n": no key has NUL, CR or LF`},
		{"allow a long prefix", "tenants:\n- id: a\n  allow: [/" + strings.Repeat("x", MaxPrefix) + "]", "3: allow: a prefix of 1025 bytes is longer than any key, 1024"},
		{"allow too many", "tenants:\n- id: a\n  allow: [" + strings.Repeat("/, ", MaxAllow+1) + "]", "3: allow: 257 are more than the 256 that there may be"},

		{"token without a hash", "tenants:\n- id: a\n  tokens: [{id: t}]", "3: a token has an id and a sha256; talon token new makes both"},
		{"short hash", "tenants:\n- id: a\n  tokens:\n  - id: t\n    sha256: abc", "5: sha256 is the hash of the secret, 64 hexadecimal digits"},
		{"no hash at all", "tenants:\n- id: a\n  tokens: [{id: t, sha256: \"" + strings.Repeat("0", 64) + "\"}]", "3: sha256 is the hash of the secret, 64 hexadecimal digits"},
		{"token id with a dot", "tenants:\n- id: a\n  tokens: [{id: t.u, sha256: " + hash1 + "}]", `3: token id "t.u": use up to 64 letters, digits, dashes and underscores`},
		{"a token of two", "tenants:\n- id: a\n  tokens: [{id: t, sha256: " + hash1 + "}]\n- id: b\n  tokens: [{id: t, sha256: " + hash2 + "}]",
			"4: tenant b: token id t is there twice; a token is one tenant's"},
		{"a secret in the file", "tenants:\n- id: a\n  tokens: [{id: t, secret: x}]", `3: unknown field "secret"; a token has id, sha256`},
		{"too many tokens", "tenants:\n- id: a\n  tokens: [" + strings.Repeat("{}, ", MaxTokens+1) + "]", "3: tokens: 33 are more than the 32 that there may be"},

		{"unknown metric", good + "defaults: {limits: {iops: {rate: 1/s}}}", `2: unknown field "iops"; limits has read_iops, client_egress_bytes, origin_read_bytes, write_iops`},
		{"unknown field of a limit", good + "defaults: {limits: {read_iops: {brust: 1}}}",
			`2: unknown field "brust"; read_iops has rate, burst, local_burst, soft_rate, enabled, mode, on_limit, ban`},
		{"zero rate", limit("") + "\nclasses: {x: {limits: {read_iops: {rate: 0/s}}}}", "3: rate: zero is refused, it could mean nothing or everything; remove the line to inherit it, or lift the limit with  enabled: false"},
		{"zero soft rate", limit("soft_rate: 0/s"), "2: soft_rate: zero is refused, it could mean nothing or everything; write none"},
		{"rate without its unit", good + "classes: {x: {limits: {read_iops: {rate: 5}}}}", `2: rate: "5" is not a rate; write 500/s`},
		{"requests in bytes", good + "classes: {x: {limits: {read_iops: {rate: 5MiB/s}}}}", `2: rate: "5MiB/s" is not a rate; write 500/s`},
		{"burst of requests in bytes", good + "classes: {x: {limits: {read_iops: {burst: 5MiB}}}}", `2: burst: "5MiB" is not a whole number`},
		{"bytes without a second", good + "classes: {x: {limits: {origin_read_bytes: {rate: 5MiB}}}}", `2: rate: "5MiB" is not a rate; write 100MiB/s`},
		{"bytes in a minute", good + "classes: {x: {limits: {origin_read_bytes: {rate: 5MiB/m}}}}", `2: rate: "5MiB/m" is not a rate`},
		{"a rate beyond the arithmetic", good + "classes: {x: {limits: {read_iops: {rate: 1000000000001/s}}}}", "2: rate: 1000000000001/s is outside of 1/s to 1000000000000/s"},
		{"mode", limit("mode: dry"), `2: mode: "dry" is none of enforce, shadow, off`},
		{"on_limit", limit("on_limit: drop"), `2: on_limit: "drop" is none of pace, reject, ban`},
		{"enabled", limit("enabled: yes"), `2: enabled: "yes" is neither true nor false`},
		{"a ban without a time", limit("on_limit: ban"), "2: client_egress_bytes has no ban.for, here or in what it inherits from"},
		{"a ban for days", limit("on_limit: ban, ban: {for: 25h}"), "2: for: 25h is outside of 1ms to 24h0m0s"},
		{"ban mode", limit("on_limit: ban, ban: {for: 1h, mode: reset}"), `2: mode: "reset" is none of error, close`},
		{"half a limit", "tenants:\n- id: a\n  limits:\n    read_iops: {rate: 5/s, local_burst: 3}", "4: tenant a: read_iops has no burst, here or in what it inherits from"},
		{"nothing of a limit", "tenants:\n- id: a\n  limits: {read_iops: {}}",
			"3: tenant a: read_iops has no rate, here or in what it inherits from; 3: tenant a: read_iops has no burst, here or in what it inherits from; 3: tenant a: read_iops has no local_burst"},
		{"half a limit in the defaults, for all", "tenants: [{id: a}, {id: b}, {id: c}]\ndefaults: {limits: {read_iops: {rate: 5/s, local_burst: 3}}}", "2: read_iops has no burst, here or in what it inherits from"},
		{"local burst over the burst", "tenants:\n- id: a\n  limits: {origin_read_bytes: {local_burst: 2MiB}}\ndefaults: {limits: {origin_read_bytes: {rate: 1/s, burst: 1MiB, local_burst: 1}}}",
			"3: tenant a: origin_read_bytes: local_burst 2MiB is more than the burst, 1MiB"},

		{"peers without an epoch", good + "peers: [{id: w, addr: \"h:1\"}]", "2: peers without a ring_epoch"},
		{"epoch 0", good + "ring_epoch: 0", "2: ring_epoch: zero is refused"},
		{"peer without an address", good + "ring_epoch: 1\npeers: [{id: w}]", "3: a peer has an id and an addr"},
		{"peer without a port", good + "ring_epoch: 1\npeers: [{id: w, addr: h}]", `3: addr "h": write host:port, for example 10.0.0.7:7001`},
		{"peer on any port", good + "ring_epoch: 1\npeers: [{id: w, addr: \"h:0\"}]", `3: addr "h:0": write host:port`},
		{"peer twice", good + "ring_epoch: 1\npeers:\n- {id: w, addr: \"h:1\"}\n- {id: w, addr: \"h:2\"}", "5: id w is another peer's, too, in line 4"},
		{"address twice", good + "ring_epoch: 1\npeers:\n- {id: w, addr: \"h:1\"}\n- {id: v, addr: \"h:1\"}", "5: addr h:1 is another peer's, too, in line 4"},

		{"all at once", "tenants:\n- id: a\n  weight: 0\n  wait: 3\n- id: a b\npeer: []\ndefaults:\n  limits: {read_iops: {rate: x}}\n",
			`3: weight: zero is refused, it could mean nothing or everything; remove the line to inherit it; ` +
				`4: unknown field "wait"; a tenant has id, class, tokens, weight, allow, dialect, queue, max_inflight, max_connections, limits; 5: id "a b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse("p.yaml", []byte(c.text))
			var found Problems
			if !errors.As(err, &found) || s != nil {
				t.Fatalf("got %+v, %v; want problems", s, err)
			}
			got := strings.ReplaceAll(strings.ReplaceAll(err.Error(), "\n", "; "), "p.yaml:", "")
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestOneFaultOneProblem: a fault does not drag others behind it.
func TestOneFaultOneProblem(t *testing.T) {
	for _, text := range []string{
		"tenants: [{id: a, limits: {read_iops: {rate: x, burst: 1, local_burst: 1}}}]",
		"tenants: [{id: a, limits: {read_iops: {rate: 1/s, brust: 1, local_burst: 1}}}]",
		"tenants: [{id: a, limits: {read_iops: {rate: 1/s, burst: 1, local_burst: 0}}}]",
		"tenants: [{id: 7}]", "tenants: [{id: ~}]", "tenants: [{id: ''}]", "tenants: [7]", "tenants: 7", "tenants: [",
		"tenants: [{id: a, class: 7}]",
		"tenants: [{id: a}, {id: b}, {id: c}]\ndefaults: {limits: {read_iops: {rate: 5/s, local_burst: 3, burst: 2}}}",
		"tenants: [{id: a}, {id: b}]\ndefaults: {queue: {target: 2s, deadline: 1s}}",
		"tenants: [{id: a, tokens: [{id: t, sha256: 5}]}]",
	} {
		_, err := Parse("p.yaml", []byte(text))
		if found := new(Problems); !errors.As(err, found) || len(*found) != 1 {
			t.Errorf("%s: %d problems, want one:\n%v", text, len(*found), err)
		}
	}
}

// TestBounds: at each bound a file is good, one beyond it is not, and what is said of a file full of faults has an end.
func TestBounds(t *testing.T) {
	tenants := func(n int) string {
		var b strings.Builder
		b.WriteString("tenants:\n")
		for i := range n {
			fmt.Fprintf(&b, "- id: t%d\n", i)
		}
		return b.String()
	}
	classes := func(n int) string {
		var b strings.Builder
		b.WriteString("tenants: [{id: a}]\nclasses:\n")
		for i := range n {
			fmt.Fprintf(&b, "  c%d: {}\n", i)
		}
		return b.String()
	}
	padded := func(n int) string { return "tenants: [{id: a}]\n#" + strings.Repeat("x", n-20) }
	for _, c := range []struct {
		what string
		text func(int) string
		most int
	}{{"tenants", tenants, MaxTenants}, {"classes", classes, MaxClasses}, {"bytes", padded, MaxFile}} {
		if _, err := Parse("p.yaml", []byte(c.text(c.most))); err != nil {
			t.Errorf("%d %s: %v", c.most, c.what, err)
		}
		if _, err := Parse("p.yaml", []byte(c.text(c.most+1))); err == nil {
			t.Errorf("%d %s are taken", c.most+1, c.what)
		}
	}
	_, err := Parse("p.yaml", []byte(strings.ReplaceAll(tenants(5000), "id: t", "id: +")+"x: y\n"))
	if found := new(Problems); !errors.As(err, found) || len(*found) != maxProblems+1 ||
		!strings.HasSuffix(err.Error(), "problems more") {
		t.Errorf("%d problems of a wrong file", len(*found))
	}
}
