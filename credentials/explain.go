// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"time"

	"github.com/seed-141914ff/okara/oci"
)

// Candidate is one credential, or one location without any, that was considered, without a secret.
type Candidate struct {
	Source   string     `json:"source"`             // "explicit", "CLI configuration", "docker configuration", ...
	Location string     `json:"location"`           // a file, a variable, or the origin of a setting
	Key      string     `json:"key,omitempty"`      // the entry's key as written at Location
	Match    string     `json:"match,omitempty"`    // "repository", "prefix", "host", "default"; "": no match
	Kind     string     `json:"kind,omitempty"`     // "password", "identity token", "registry token"; "": unknown
	Helper   string     `json:"helper,omitempty"`   // the credential helper that stores the secret
	Username string     `json:"username,omitempty"` // masked where it may be the secret itself
	Secret   string     `json:"secret,omitempty"`   // masked
	Expires  *time.Time `json:"expires,omitempty"`  // if the credential contains it
	Chosen   bool       `json:"chosen"`
	Refused  bool       `json:"refused,omitempty"` // the registry refused it recently
	Reason   string     `json:"reason"`            // why it was chosen, or why not
}

// Anonymous is the Source of the candidate that stands for no credentials.
const Anonymous = "anonymous"

const masked = "********"

// Explicit is the Source of credentials given to okara itself.
const Explicit = "explicit"

// Explain returns every candidate in order of rank, the most specific match at the top, then
// locations without any, then anonymous access. Helpers are asked only up to the chosen candidate.
func (r *Resolver) Explain(ctx context.Context, host, repository string) ([]Candidate, error) {
	t := newTarget(host, repository)
	found, err := r.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	list := make([]Candidate, 0, len(found)+1)
	anonymous := true
	for _, f := range found {
		anonymous = anonymous && !f.chosen
		list = append(list, f.candidate(t))
	}
	last := Candidate{Source: Anonymous, Location: "no credentials", Match: "default", Chosen: anonymous}
	last.Reason = "a source has credentials"
	if anonymous {
		last.Reason = "no source has credentials for " + t.String()
	}
	return append(list, last), nil
}

func (f finding) candidate(t key) Candidate {
	c := Candidate{
		Source: f.source.name, Location: f.source.location, Key: f.entry.raw,
		Match: f.match.name(f.entry.key, t), Helper: f.entry.helper, Chosen: f.chosen, Refused: errors.Is(f.err, errRefused),
		Reason: f.reason(),
	}
	if f.match != matchNone {
		c.describeCredential(f.cred)
	}
	return c
}

func (f finding) reason() string {
	switch {
	case f.chosen && f.err != nil:
		return f.err.Error() + ", and there is no other credential"
	case f.chosen:
		return "the most specific match, from the first source with one"
	case errors.Is(f.err, errNoEntry):
		if f.entry.ident {
			return "this program has no identity in that cloud"
		}
		return "the helper has no entry for this registry"
	case f.err != nil:
		return "skipped: " + f.err.Error()
	case f.bare && f.source.missing:
		return "not found"
	case f.bare:
		return "has no credentials"
	case f.match == matchNone:
		return "is for another registry or repository"
	case f.entry.helper != "" || f.entry.ident:
		return "not queried: a better match exists"
	}
	return "a better match exists"
}

// describeCredential fills in the parts of a credential that may be shown.
func (c *Candidate) describeCredential(cred oci.Credential) {
	switch {
	case cred.RegistryToken != "":
		c.Kind = "registry token"
		c.Secret = masked
	case cred.IdentityToken != "":
		c.Kind = "identity token"
		c.Secret = masked
	case cred.Username != "":
		c.Kind = "password"
		c.Secret = masked
	default:
		return
	}
	if t := readExpiry(cred); !t.IsZero() {
		c.Expires = &t
	}
	c.Username = cred.Username
	if cred.Password == "" || cred.Password == "x-oauth-basic" {
		c.Username = "" // some services take a token as the user name
	}
}
