// SPDX-License-Identifier: Apache-2.0

package sample

import (
	"cmp"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

//go:embed content
var content embed.FS

// Options describes the capabilities of the machine.
type Options struct {
	Tool      string // tofu or terraform, for running instances; "": nothing can be launched
	Isolation string // of the runs, as in an executor block
}

// Person is a user who can log in to the server.
type Person struct {
	Name  string
	Role  string // the rights of the user, in words
	Token string // secret; valid for a day
}

// Server is a sample server that is not filled yet.
type Server struct {
	Config string   // file of settings
	People []Person // a developer and a platform engineer

	launches bool
}

// account is a user with the scopes of the token.
type account struct {
	Person
	scopes []string
}

// sampleAccounts returns the users: first the developer, then the engineer.
func sampleAccounts() []account {
	return []account{
		{
			Person{Name: "ana", Role: "a developer: reads, launches templates, writes the state shop"},
			[]string{"read:*:**", "write:state:shop", "use:instance:sandbox/*"},
		},
		{
			Person{Name: "ben", Role: "a platform engineer: may do everything, and approves what others request"},
			[]string{"admin:*:**", "write:state:**", "admin:template:**", "approve:instance:**", "admin:instance:**"},
		},
	}
}

// lifetime is how long the tokens of a sample are valid.
const lifetime = 24 * time.Hour

// Write writes settings, tokens and templates into an empty folder. Each call generates
// new tokens, and stores only their hashes.
func Write(dir string, o Options) (*Server, error) {
	s := &Server{Config: filepath.Join(dir, "okara.hcl"), launches: o.Tool != ""}
	var text strings.Builder
	fmt.Fprintf(&text, "# A sample, deleted when the server stops.\nmcp     = true\nstorage = %q\n", filepath.Join(dir, "data"))
	for _, p := range sampleAccounts() {
		var scopes []rights.Scope
		for _, scope := range p.scopes {
			parsed, err := rights.ParseScope(scope)
			if err != nil {
				return nil, err
			}
			scopes = append(scopes, parsed)
		}
		secret, token, err := statictoken.New(p.Name, scopes, time.Now().Add(lifetime))
		if err != nil {
			return nil, err
		}
		s.People = append(s.People, Person{p.Name, p.Role, secret})
		fmt.Fprintf(&text, "token %q {\n  sha256  = %q\n  scopes  = [%s]\n  expires = %q\n}\n",
			p.Name, hex.EncodeToString(token.Hash[:]), quoteAll(p.scopes), token.Expires.UTC().Format(time.RFC3339))
	}
	if s.launches {
		templates := filepath.Join(dir, "templates")
		fmt.Fprintf(&text, "instances {\n  templates = %q\n}\nexecutor \"local\" {\n  program   = %q\n  isolation = %q\n  ends      = true\n}\n",
			templates, o.Tool, cmp.Or(o.Isolation, "sandbox"))
		if err := copyTree(templates, "content/templates"); err != nil {
			return nil, err
		}
	}
	return s, os.WriteFile(s.Config, []byte(text.String()), 0o600)
}

func quoteAll(list []string) string {
	var text []string
	for _, s := range list {
		text = append(text, fmt.Sprintf("%q", s))
	}
	return strings.Join(text, ", ")
}

// copyTree writes a folder of the embedded content to disk.
func copyTree(dir, name string) error {
	tree, err := fs.Sub(content, name)
	if err != nil {
		return err
	}
	return os.CopyFS(dir, tree)
}
