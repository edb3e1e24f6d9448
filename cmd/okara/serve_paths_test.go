// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	launch "github.com/seed-141914ff/okara/instances/settings"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
)

// TestServeFromAnywhere: paths in a configuration, such as tokens, are relative to it,
// wherever the server is started. Paths in flags are relative to the working directory.
//
// Shows: mistakes 41 | paths in a configuration referred to different files, depending on where the
// server was started | they are relative to the configuration file
func TestServeFromAnywhere(t *testing.T) {
	etc, here := t.TempDir(), t.TempDir()
	t.Chdir(here)
	mustWrite(t, filepath.Join(etc, "tokens"), []byte(serveToken+" read:module:**\n"))
	mustWrite(t, filepath.Join(here, "more"), []byte(teamToken+" read:module:**\n"))
	mustWrite(t, filepath.Join(etc, "okara.hcl"), []byte("token_file = \"tokens\"\nstorage = \"data\"\naudit_log = \"log/../audit.jsonl\"\n"))
	status := func(url, token string) int {
		return status(t, http.DefaultClient, http.MethodGet, url+"/v1/catalog", token)
	}
	url, _, stop := newServer(t, "--config", filepath.Join(etc, "okara.hcl"))
	if a, b := status(url, serveToken), status(url, teamToken); a != http.StatusOK || b != http.StatusUnauthorized {
		t.Errorf("the token of token_file: %d, another: %d", a, b)
	}
	if stop(); len(mustDir(t, here)) != 1 || len(mustDir(t, etc)) != 4 {
		t.Errorf("files beside the configuration: %q, where it was started: %q", mustDir(t, etc), mustDir(t, here))
	}
	url, _, _ = newServer(t, "--config", filepath.Join(etc, "okara.hcl"), "--token-file", "more")
	if a, b := status(url, serveToken), status(url, teamToken); a != http.StatusUnauthorized || b != http.StatusOK {
		t.Errorf("the flag does not win: the token of token_file: %d, that of --token-file: %d", a, b)
	}
	mustWrite(t, filepath.Join(etc, "okara.hcl"), []byte("token_file = \"nowhere\"\n"))
	if o := okara(t, "serve", "--config", filepath.Join(etc, "okara.hcl"), "--check"); o.code != cli.ExitUsage || !strings.Contains(o.err, filepath.Join(etc, "nowhere")) {
		t.Errorf("a file that is not there: exit %d: %s", o.code, o.err)
	}
}

func mustDir(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestPathSettings: every setting for a file may be relative.
//
// Shows: mistakes 41
func TestPathSettings(t *testing.T) {
	n := 0
	var walk func(body reflect.Type)
	walk = func(body reflect.Type) {
		for body.Kind() == reflect.Pointer || body.Kind() == reflect.Slice {
			body = body.Elem()
		}
		if body.Kind() != reflect.Struct {
			return
		}
		for f := range body.Fields() {
			name, kind, _ := strings.Cut(f.Tag.Get("hcl"), ",")
			if f.Tag.Get("path") != "" {
				n++
			} else if kind != "attr_value_range" && (strings.HasSuffix(name, "_file") || strings.HasSuffix(name, "_files") || name == "storage") {
				t.Errorf("%s: no tag path", name)
			}
			if name != "" || f.Anonymous || f.Name == "Access" || f.Name == "Origins" || f.Name == "Cloud" {
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[server.Settings]())
	walk(reflect.TypeFor[launch.Block]())
	if n < 20 {
		t.Errorf("only %d paths", n)
	}
}
