// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
)

// FuzzAnswer: any answers to a publication are errors, safe for a terminal, without the token.
func FuzzAnswer(f *testing.F) {
	f.Add(201, `{"repository":"r","tag":"1.0.0","digest":"d","content_digest":"c"}`)
	f.Add(422, `{"errors":["main.tf:3: \u001b[31m`+secret+`"]}`)
	f.Add(307, "")
	f.Add(200, "[]")
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			return // net/http never returns other statuses
		}
		answer := func(r *http.Request) *http.Response {
			header := http.Header{"Location": {body}}
			return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		}
		c := client.New(client.Options{Server: must.Fixed(url.Parse("https://okara.example.com")), Token: token(secret), Transport: tripper(answer), Pause: 1})
		_, err := c.PublishModule(t.Context(), fstest.MapFS{"main.tf": {}}, module("1.0.0"), depot.ModuleOptions{})
		if err == nil {
			t.Fatalf("%d %q is success", status, body)
		}
		if strings.Contains(err.Error(), secret) || strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("%q", err)
		}
	})
}
