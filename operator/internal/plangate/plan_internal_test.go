// SPDX-License-Identifier: Apache-2.0

package plangate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// body is a request of tofu-controller, with a plan in the format of tofu 1.12.
const body = `{"apiVersion":"infra.contrib.fluxcd.io/v1alpha2","kind":"Terraform",
"metadata":{"namespace":"team-a","name":"vpc","uid":"5f0c","generation":3},
"spec":{"interval":"10m0s"},
"status":{"tfplan":{"format_version":"1.2","terraform_version":"1.12.6","timestamp":"2026-11-01T00:00:00Z",
"resource_changes":[
{"address":"a.a","type":"a","change":{"actions":["create"],"before":null,"after":{"size":9007199254740993},"after_unknown":{"id":true}}},
{"address":"a.b","type":"a","change":{"actions":["delete","create"],"before":{"x":"1"},"after":{"x":"2"}}},
{"address":"a.c","type":"a","change":{"actions":["update"]}},
{"address":"a.d","type":"a","change":{"actions":["no-op"],"importing":{"id":"abc"}}},
{"address":"a.e","type":"a","change":{"actions":["forget"]}}],
"checks":[{"address":{"kind":"check","name":"ok","to_display":"check.ok"},"status":"fail","instances":[{"status":"fail","problems":[{"message":"must be\nfive"}]}]},
{"address":{"kind":"resource","to_display":"a.a"},"status":"fail","instances":[{"status":"fail","problems":[{"message":"no check"}]}]}],
"output_changes":{"id":{"actions":["create"],"after":"v"}}}}}`

func digestOf(t *testing.T, text string) string {
	t.Helper()
	p := must.Get(parsePayload([]byte(text)))(t)
	return must.Get(p.digest([]byte("key")))(t)
}

// TestDigest: each value counts, and nothing else.
func TestDigest(t *testing.T) {
	first := digestOf(t, body)
	for _, same := range [][2]string{
		{`2026-11-01T00:00:00Z`, `2026-11-02T00:00:00Z`}, {`"generation":3`, `"generation":4`}, {`"1.12.6"`, `"1.12.7"`},
		{`"type":"a","change":{"actions":["create"],"before":null`, `"change":{"before":null,"actions":["create"]},"type":"a","change":{"actions":["create"],"before":null`},
	} {
		if digestOf(t, strings.Replace(body, same[0], same[1], 1)) != first {
			t.Errorf("%s counts", same[0])
		}
	}
	for _, other := range [][2]string{
		{`9007199254740993`, `9007199254740992`}, {`"after":"v"`, `"after":"w"`}, {`"update"`, `"delete"`}, {`"5f0c"`, `"5f0d"`}, {`"x":"2"`, `"x":2`},
	} {
		if digestOf(t, strings.Replace(body, other[0], other[1], 1)) == first {
			t.Errorf("%s does not count", other[0])
		}
	}
	p := must.Get(parsePayload([]byte(body)))(t)
	if sum, err := p.digest([]byte("another")); err != nil || sum == first {
		t.Errorf("the key does not count: %v", err)
	}
	must.Match(t, "actions", p.Status.Plan.readActions(), fluxexec.Actions{
		Adds: 2, Changes: 1, Removes: 1, Imports: 1, Forgets: 1,
		Notes: []fluxexec.Note{{Kind: "import", Text: "a.d"}, {Kind: "forget", Text: "a.e"}, {Kind: "check", Text: "check.ok: must be five"}},
	})
}

// TestParse checks that anything but the plan of a Terraform is refused.
func TestParse(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":       "",
		"text":          "plan",
		"two":           body + body,
		"no plan":       strings.Replace(body, "tfplan", "plan", 1),
		"no version":    strings.Replace(body, "format_version", "version", 1),
		"no name":       strings.Replace(body, `"name":"vpc",`, "", 1),
		"no uid":        strings.Replace(body, `"5f0c"`, `""`, 1),
		"no generation": strings.Replace(body, `"generation":3`, `"generation":0`, 1),
		"deep":          strings.Replace(body, `{"x":"2"}`, strings.Repeat("[", maxDepth)+strings.Repeat("]", maxDepth), 1),
	} {
		if _, err := parsePayload([]byte(text)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// FuzzParse: no body crashes, digests are stable.
func FuzzParse(f *testing.F) {
	f.Add([]byte(body))
	f.Add([]byte(`{"metadata":{"namespace":"a","name":"b","uid":"c","generation":1},"status":{"tfplan":{"format_version":"1","resource_changes":[1,{"change":[]}]}}}`))
	f.Add([]byte(`"\"[[`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePayload(bytes.Clone(b))
		if err != nil {
			return
		}
		p.Status.Plan.readActions()
		first := must.Get(p.digest([]byte("key")))(t)
		if again := digestOf(t, string(b)); again != first || len(first) != 64 {
			t.Errorf("%s, then %s", first, again)
		}
	})
}
