// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
)

// waitFor waits for background work, with a generous timeout.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick, end := time.NewTicker(5*time.Millisecond), time.NewTimer(5*time.Minute)
	defer tick.Stop()
	defer end.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("%s: it did not happen", what)
		}
	}
}

// TestServeReload changes rights, and the key of links, of a running server: by itself and on
// SIGHUP it applies valid changes, keeps the old values if the new ones are broken, and then
// refuses what was removed.
//
// Shows: mistakes 28 | a revoked token or rule stayed valid until the next start | rights and keys
// are read again on SIGHUP and when their files change; invalid files change nothing
func TestServeReload(t *testing.T) {
	t.Parallel()
	const other = "oks_other_0123456789abcdefghij"
	dir := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	tokens := put("tokens", serveToken+" publish:module:acme/** publish:module:net/**\n")
	key := func(digit string) string { return put("key", strings.Repeat(digit, 64)) }
	config := put("okara.hcl", fmt.Sprintf("log_format = \"json\"\narchives {\n  key_files = [%q]\n}\n", key("1")))
	p := newServeProcess(t, nil, "--config", config, "--token-file", tokens)
	ask := func(path, token string) int { return status(t, http.DefaultClient, http.MethodGet, p.url+path, token) }
	const versions = "/v1/modules/acme/x/aws/versions"
	if got, wrong := ask(versions, serveToken), ask(versions, other); got != 404 || wrong != 401 {
		t.Fatalf("at the start: %d and %d", got, wrong)
	}
	published, _ := p.publish(t, &http.Client{Transport: traceparent("")}, 1000)
	first := strings.TrimPrefix(published, p.url)
	link := func(token string) string {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/modules/net/vpc/aws/1.0.0/download", nil))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		resp := must.Get(http.DefaultClient.Do(r))(t)
		resp.Body.Close()
		return strings.TrimPrefix(must.Get(resp.Request.URL.Parse(resp.Header.Get("X-Terraform-Get")))(t).String(), p.url)
	}
	if got := ask(first, ""); got != 200 {
		t.Fatalf("%s: %d", first, got)
	}

	put("tokens", other+" read:*:**\n")
	waitFor(t, "a changed file of tokens", func() bool { return ask(versions, other) == 404 })
	must.Equal(t, "a token that was removed", ask(versions, serveToken), 401)

	key("2")
	waitFor(t, "another key of links", func() bool { return ask(first, "") == 403 })
	if second := link(other); ask(second, "") != 200 {
		t.Errorf("%s of the new key is refused", second)
	}

	for name, text := range map[string]string{
		"no scope": other + "\n", "two tokens": other + " " + serveToken + "\n", "empty": "", "no end": "x sha256:" + strings.Repeat("0", 64) + " expires=soon read:*:**\n",
	} {
		before := strings.Count(p.log.String(), "the previous ones stay in effect")
		put("tokens", text)
		p.signal(t, syscall.SIGHUP)
		waitFor(t, name, func() bool { return strings.Count(p.log.String(), "the previous ones stay in effect") > before })
		must.Equal(t, name+": the old token", ask(versions, other), 404)
	}
	before := strings.Count(p.log.String(), "were reloaded")
	put("tokens", other+" read:*:**\n"+serveToken+" read:module:none/**\n")
	p.signal(t, syscall.SIGHUP)
	waitFor(t, "SIGHUP", func() bool { return strings.Count(p.log.String(), "rights and keys were reloaded") > before })
	waitFor(t, "both tokens", func() bool { return ask(versions, serveToken) == 403 && ask(versions, other) == 404 })

	p.signal(t, syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, p.log)
	}
	var said []string
	for line := range strings.Lines(p.log.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		said = append(said, fmt.Sprint(record["msg"]))
		for _, secret := range []string{serveToken, other, serveToken[7:], strings.Repeat("1", 64), strings.Repeat("2", 64)} {
			if strings.Contains(line, secret) {
				t.Errorf("the log has %s: %s", secret, line)
			}
		}
	}
	if said[0] != "started" || said[len(said)-1] != "ended" || !strings.Contains(p.log.String(), `"reason":"terminated signal received"`) {
		t.Errorf("the log begins with %s and ends with %s: %s", said[0], said[len(said)-1], p.log)
	}
	if !strings.Contains(p.log.String(), `"url":"`+p.url+`"`) || !strings.Contains(p.log.String(), `"version":"`) {
		t.Errorf("the start says neither version nor address: %s", p.log)
	}
}

// TestServeReloadOpens removes all settings of rights: a server started like that on a
// loopback address would grant everything, but a running server stays unchanged.
//
// Shows: mistakes 28
func TestServeReloadOpens(t *testing.T) {
	t.Parallel()
	config := newFile(t, "okara.hcl", "token \"ci\" {\n  sha256 = \""+serveSum+"\"\n  scopes = [\"read:*:**\"]\n}\n")
	url, notes, _ := newServer(t, "--storage", t.TempDir(), "--config", config)
	must.Succeed(t, os.WriteFile(config, []byte("tag_ttl = 1\n"), 0o600))
	waitFor(t, "an unknown setting", func() bool { return strings.Contains(notes(), "okara.hcl:1") })
	must.Succeed(t, os.WriteFile(config, nil, 0o600))
	waitFor(t, "nothing is said", func() bool { return strings.Contains(notes(), "no setting grants access any more") })
	for token, want := range map[string]int{"": 401, serveToken: 404} {
		if got := status(t, http.DefaultClient, http.MethodGet, url+"/v1/modules/acme/x/aws/versions", token); got != want {
			t.Errorf("token %q: %d, want %d", token, got, want)
		}
	}
}
