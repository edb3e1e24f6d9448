// SPDX-License-Identifier: Apache-2.0

package httpbackend

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/statebackend"
)

func FuzzPath(f *testing.F) {
	for _, s := range []string{"/state/app/default", "/state/a/%C3%9Cn%2Fx y", "/state/a/..", "/state//", "/state/a/%zz", "/state/a/%ff", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		name, workspace, err := parsePath(path)
		if err != nil {
			return
		}
		for _, s := range []string{name, workspace} {
			if s == "" || s == "." || s == ".." || strings.IndexFunc(s, unicode.IsControl) >= 0 {
				t.Errorf("%q gives the segment %q", path, s)
			}
		}
		again := "/state/" + url.PathEscape(name) + "/" + url.PathEscape(workspace)
		if n, w, err := parsePath(again); err != nil || n != name || w != workspace {
			t.Errorf("%q gives %q and %q, and written again %q and %q, %v", path, name, workspace, n, w, err)
		}
	})
}

func FuzzLockInfo(f *testing.F) {
	f.Add(`{"ID":"x","Created":"2026-01-02T03:04:05Z"}`)
	f.Add(`{"ID":1}`)
	f.Add(``)
	f.Fuzz(func(t *testing.T, body string) {
		read := func(body string) (statebackend.LockInfo, error) {
			return readLockInfo(httptest.NewRecorder(), httptest.NewRequest(methodLock, "/state/a/b", strings.NewReader(body)))
		}
		info, err := read(body)
		if err != nil {
			return
		}
		b, err := json.Marshal(info)
		if err != nil {
			return // a year that JSON cannot represent
		}
		again, err := read(string(b))
		if diff := cmp.Diff(info, again); err != nil || diff != "" {
			t.Errorf("%v (-first +second):\n%s", err, diff)
		}
	})
}
