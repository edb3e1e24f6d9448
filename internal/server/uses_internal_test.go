// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestUsesRights: each caller sees the states that it may read, and the number of the others only if it
// may read the module, from five on.
func TestUsesRights(t *testing.T) {
	front := doorsFront(t)
	d := &usage.Document{Recorded: usage.Complete, Modules: []usage.Module{{Source: "okara.test/net/vpc/aws", Version: "5.2.0"}}}
	record := func(_, _ []byte) []byte { return d.Encode() }
	for _, at := range []string{"shop/dev", "shop/prod", "acme.dev/default", "acme.prod/default", "a/default", "b/default", "c/default"} {
		name, workspace, _ := strings.Cut(at, "/")
		store := must.Get(front.o.Stores(t.Context(), name))(t)
		must.Succeed(t, store.Hold(statebackend.WithUsage(t.Context(), record), workspace, statebackend.LockInfo{ID: at}, func(l *statebackend.Lock) error {
			_, err := l.Put(statebackend.WithUsage(t.Context(), record), fmt.Appendf(nil, `{"version":4,"serial":1,"lineage":%q}`, at))
			return err
		}))
	}
	must.Succeed(t, front.uses.Uses.Refresh(t.Context()))
	for _, tt := range []struct{ scopes, want string }{
		{"read:state:**", "a/default acme.dev/default acme.prod/default b/default c/default shop/dev shop/prod"},
		{"read:*:**", "7 others"}, // states are apart,
		{"read:state:shop", "shop/dev shop/prod"},
		{"read:state:shop read:module:net/**", "shop/dev shop/prod 5 others"},
		{"read:state:shop/dev read:module:**", "shop/dev 6 others"},
		{"read:state:acme read:state:shop read:module:**", "acme.dev/default acme.prod/default shop/dev shop/prod a few others"},
		{"read:state:acme/prod read:state:a read:module:other/**", "a/default acme.prod/default"},
		{"write:state:b", "b/default"},
		{"read:module:net/vpc/aws", "7 others"},
		{"read:module:net/vpc/gcp", ""},
	} {
		id, hash := must.GetBoth(statictoken.Hash(rightsToken))(t)
		token := statictoken.Token{ID: id, Hash: hash}
		for s := range strings.FieldsSeq(tt.scopes) {
			token.Scopes = append(token.Scopes, must.Get(rights.ParseScope(s))(t))
		}
		must.Succeed(t, front.kit.Guard.Replace(access.Policy{Tokens: []statictoken.Token{token}}))
		for _, query := range []string{"net/vpc/aws", "net/vpc/aws@5.2.0", "net/vpc/aws@< 5", "okara.test/net/vpc/aws"} {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/v1/used-by?address="+strings.ReplaceAll(query, " ", "%20"), nil)
			r.Header.Set("Authorization", "Bearer "+rightsToken)
			w := httptest.NewRecorder()
			front.ServeHTTP(w, r)
			var a usage.Answer
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != 200 {
				t.Errorf("%s: %d %s", tt.scopes, w.Code, w.Body)
				continue
			}
			var got []string
			for _, s := range a.States {
				got = append(got, s.State+"/"+s.Workspace)
			}
			if a.Others > 0 {
				got = append(got, fmt.Sprint(a.Others, " others"))
			}
			if a.Some {
				got = append(got, "a few others")
			}
			want := tt.want
			if strings.Contains(query, "<") { // no state that is shown matches, and the number is the same
				all := strings.Fields(want)
				for len(all) > 0 && strings.Contains(all[0], "/") {
					all = all[1:]
				}
				want = strings.Join(all, " ")
			}
			must.Equal(t, tt.scopes+" "+query, strings.Join(got, " "), want)
		}
	}
	must.Succeed(t, front.kit.Guard.Replace(access.Policy{}))
	for _, path := range []string{"/v1/used-by?address=net/vpc/aws", "/v1/outdated"} {
		w := httptest.NewRecorder()
		front.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost"+path, nil))
		must.Equal(t, "without a token "+path, w.Code, 401)
	}
}
