// SPDX-License-Identifier: Apache-2.0

package web

import (
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// meBody describes the caller as the server identified it.
type meBody struct {
	Name, Subject, Issuer string
	Known                 string    // how the caller authenticated
	Groups                []string  // groups that rules use
	Asked                 time.Time // when the issuer confirmed them; zero: unknown
	Until                 time.Time // end of the session; zero: no session
	Session               bool      // the session can be ended here
	Rights                []access.RuleRight
	Host                  string // name of the host to get a token for
	Variable              string // environment variable of the tools for that token, after TF_TOKEN_; "": it has no name that shells accept
	CLI                   bool   // `tofu login` gets such a token
}

// tokenVariable converts a host name to the suffix of TF_TOKEN_…, as the tools read it
// (OpenTofu, internal/command/cliconfig/credentials.go); "" with a port, whose colon they
// read too, but which no shell accepts in a name.
func tokenVariable(host string) string {
	if strings.Contains(host, ":") {
		return ""
	}
	return strings.NewReplacer(".", "_", "-", "__").Replace(host)
}

// showMe explains most 403 answers. It shows only data of the caller.
func (l *logins) showMe(r *site.Request) (*site.Page, error) {
	c, err := l.guard.CallerOf(r.Request)
	if err != nil {
		return nil, err
	}
	r.Grant.Caller = c
	body := meBody{
		Name: c.Label, Subject: c.Subject, Issuer: c.Issuer, Until: c.Until, Session: !c.Until.IsZero(), Rights: c.Rights(),
		Host: l.hosts.Of(r), Variable: tokenVariable(l.hosts.Of(r)), CLI: l.guard.ToolLogins().On(),
	}
	body.Groups, body.Asked = c.KnownGroups()
	switch c.Mode {
	case "anonymous":
		body.Known = "nothing: you sent no token and have not logged in"
	case "static":
		body.Known = "a configured token"
	case "login":
		body.Known = "a token of tofu login"
	case "session":
		body.Known = "a login in this browser"
	case "oidc":
		body.Known = "a token from the issuer"
	case "pass-through":
		body.Known = "a registry credential; the registry decides about access"
	}
	return &site.Page{Template: "me.html", Title: "Me", Body: body}, nil
}
