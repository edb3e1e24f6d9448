// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
)

// credential returns the caller's own credential for the registry, on routes that accept one.
func (g *Guard) credential(r *http.Request, p *activePolicy, token string) (oci.Credential, bool, error) {
	if g.o.PassThrough == nil || !g.o.PassThrough(r) || token == "" || ownToken(token) {
		return oci.Credential{}, false, nil
	}
	if _, ours := p.issuers.find(token); ours {
		return oci.Credential{}, false, nil
	}
	c, err := parseCredential(token)
	return c, err == nil, err
}

// ownToken reports whether a token has the form of a token that this server issues.
func ownToken(token string) bool {
	return strings.HasPrefix(token, statictoken.Prefix) || strings.HasPrefix(token, loginPrefix) || strings.HasPrefix(token, runPrefix)
}

// callerBehind returns the caller with a registry credential, about which the registry decides.
func callerBehind(c oci.Credential) Caller {
	id := sha256.Sum256([]byte(strings.Join([]string{c.Username, c.Password, c.IdentityToken, c.RegistryToken}, "\x00")))
	return Caller{Mode: "pass-through", Subject: hex.EncodeToString(id[:4]), Credential: &c, scopes: []rights.Scope{{Action: rights.Admin, Kind: rights.AnyKind, Glob: rights.Everything}}}
}

// parseCredential parses the forms that `okara auth token` prints.
func parseCredential(token string) (oci.Credential, error) {
	refused := &Refusal{Status: http.StatusUnauthorized, Text: "the token is not a registry credential"}
	decode := func(s string) (string, bool) {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
		return string(b), err == nil && len(b) > 0
	}
	if rest, ok := strings.CutPrefix(token, "basic."); ok {
		text, good := decode(rest)
		user, password, colon := strings.Cut(text, ":")
		if !good || !colon {
			return oci.Credential{}, refused
		}
		return oci.Credential{Username: user, Password: password}, nil
	}
	if rest, ok := strings.CutPrefix(token, "identity."); ok {
		text, good := decode(rest)
		if !good {
			return oci.Credential{}, refused
		}
		return oci.Credential{IdentityToken: text}, nil
	}
	return oci.Credential{RegistryToken: token}, nil
}
