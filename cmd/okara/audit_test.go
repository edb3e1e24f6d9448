// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestAuditWidth: the longest record fits a terminal of 120 columns.
func TestAuditWidth(t *testing.T) {
	var out strings.Builder
	long := auditlog.Entry{}
	for _, s := range []*string{&long.Subject, &long.Action, &long.Kind, &long.Address, &long.Version, &long.Outcome, &long.Detail, &long.Lock} {
		*s = strings.Repeat("ä", 200)
	}
	from := &audited{each: func(do func(*auditlog.Entry) error) error { return do(&long) }}
	must.Succeed(t, printAudit(&cli.App{Out: &out, Err: io.Discard}, from, false))
	yanked := &auditlog.Entry{Record: auditlog.Record{Time: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Subject: "anna", Action: "yank", Kind: "module", Address: "net/vpc/aws", Version: "1.0.0", Outcome: "done", Detail: "drops every route table of a peered network"}}
	if row := auditTable([]*auditlog.Entry{yanked})[1]; row[3] != "net/vpc/aws 1.0.0: drops every route table of a peered network" {
		t.Errorf("why it was withdrawn: %q", row)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestAudit: a change is listed at once, and sealed in the registry.
func TestAudit(t *testing.T) {
	const reading = "oks_reading_0123456789abcdefghij"
	keys := map[string]string{"OKARA_STATE_KEYS": "base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="}
	c, host := newPerson(t), ocitest.New(t, ocitest.Quirks{})
	tokens := c.file("tokens", serveToken+" admin:*:**\n"+reading+" read:module:**\n")
	url, _, stop := newServerIn(t, keys, "--registry", host+"/acme", "--token-file", tokens)
	run := func(env map[string]string, args ...string) (int, string, string) {
		c.env = env
		return c.run(t, args...)
	}
	mine := map[string]string{"OKARA_TOKEN": serveToken}
	dir := filepath.Dir(c.file("vpc/main.tf", "# x\n"))
	if code, _, errOut := run(mine, "publish", "module", dir, "net/vpc/aws", "1.0.0", "--server", url); code != cli.ExitOK {
		t.Fatal(code, errOut)
	}
	const line = `^TIME +WHO +ACTION +OBJECT +RESULT\n\S+ \S+ +ci +publish module +net/vpc/aws 1\.0\.0 +done$`
	says := func(name string, env map[string]string, code int, out, errOut string, args ...string) {
		t.Helper()
		got, gotOut, gotErr := run(env, append([]string{"admin", "audit"}, args...)...)
		if got != code || !matches(t, out, strings.TrimSpace(gotOut)) || !matches(t, errOut, strings.TrimSpace(gotErr)) {
			t.Errorf("%s: exit %d, want %d\n%s\n%s", name, got, code, gotOut, gotErr)
		}
	}
	says("at once", mine, cli.ExitOK, line, "^$", "--server", url)
	says("filtered", mine, cli.ExitOK, `^TIME.*RESULT$`, "^$", "--server", url, "--actor", "nobody")
	says("decisions", mine, cli.ExitOK, `ci +publish module`, "^$", "--server", url, "--decisions", "--action", "publish")
	says("CSV", mine, cli.ExitOK, `^"time","request_id".*\r?\n"20.*"net/vpc/aws","1\.0\.0"`, "^$", "--server", url, "--csv")
	says("no right", map[string]string{"OKARA_TOKEN": reading}, cli.ExitDenied, "^$", "403.*\nhint: the token is valid", "--server", url)
	says("no such time", mine, cli.ExitUsage, "^$", "since \"yesterday\" is not a date", "--server", url, "--since", "yesterday")
	says("two formats", mine, cli.ExitUsage, "cannot be combined", "cannot be combined", "--server", url, "--csv", "--json")
	if code := stop(); code != cli.ExitOK {
		t.Fatalf("the server ended with %d", code)
	}
	registry := []string{"--registry", host + "/acme"}
	says("from the registry", keys, cli.ExitOK, line, "^$", registry...)
	says("without keys", nil, cli.ExitOK, `^TIME.*RESULT$`, "not protected.*\nincomplete: 1 part ", registry...)
	says("decisions of the registry", keys, cli.ExitUsage, "^$", "decisions are not in the registry.*\nhint: specify the server", append(registry, "--decisions")...)
	code, out, errOut := run(keys, append([]string{"admin", "audit", "--json"}, registry...)...)
	var doc struct {
		Protected bool
		Records   []auditlog.Entry
	}
	if err := json.Unmarshal([]byte(out), &doc); code != cli.ExitOK || err != nil || !doc.Protected || len(doc.Records) != 1 || doc.Records[0].N != 1 {
		t.Errorf("exit %d, %v, %s\n%s", code, err, errOut, out)
	}
}
