// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// platformRow is a package of a provider.
type platformRow struct {
	artifact.ProviderPlatform
	Href string // below the root of the server, "" for none
}

// packages fills in the packages of a version, and those that are only in its SHA256SUMS.
func (s *providers) packages(b *providerBody, pv *catalog.ProviderVersion) {
	file := func(sha256hex, name string) string {
		if s.archives == nil {
			return ""
		}
		return s.archives.ArchiveLink(pv.Repository, sha256hex, name)
	}
	have := map[string]bool{}
	for _, t := range pv.Platforms {
		have[t.Filename] = true
		b.Platforms = append(b.Platforms, platformRow{t, file(t.Zh, t.Filename)})
	}
	name := pv.Meta.ShasumsName
	if len(pv.Meta.ShasumsBytes) > 0 && s.archives != nil {
		b.Files = append(b.Files, site.Link{Text: name, Href: file(pv.Meta.Shasums.Digest.Encoded(), name)})
	}
	if len(pv.Meta.SignatureBytes) > 0 && s.archives != nil {
		b.Files = append(b.Files, site.Link{Text: name + ".sig", Href: file(pv.Meta.Signature.Digest.Encoded(), name+".sig")})
	}
	sums, err := signing.ParseSums(pv.Meta.ShasumsBytes)
	if err != nil {
		return
	}
	for _, listed := range slices.Sorted(maps.Keys(sums)) {
		if strings.HasSuffix(listed, ".zip") && !have[listed] {
			b.LeftOut = append(b.LeftOut, listed)
		}
	}
}

// keyRow is a key that is served with a version.
type keyRow struct {
	signing.PublicKey
	Signed bool // the key made a signature of SHA256SUMS
	Marks  []site.Mark
}

// expiresSoon is how long before its end a key gets a warning.
const expiresSoon = 60 * 24 * time.Hour

// keyRows returns the keys of a version, and warnings about them.
func (s *providers) keyRows(pv *catalog.ProviderVersion) (rows []keyRow, warnings []string) {
	now := s.now()
	parsed, err := trust.PublicKeys(pv.Meta.Keys)
	if err != nil {
		return nil, []string{"A key of this version cannot be read."}
	}
	for _, k := range parsed {
		_, err := signing.Verify(pv.Meta.ShasumsBytes, pv.Meta.SignatureBytes, []signing.PublicKey{k}, signing.VerifyOptions{Now: now, AllowExpired: true})
		row := keyRow{PublicKey: k, Signed: err == nil}
		switch {
		case k.Revoked:
			row.Marks = append(row.Marks, site.Mark{Text: "revoked", Kind: "bad"})
		case k.Expired(now):
			row.Marks = append(row.Marks, site.Mark{Text: "expired", Kind: "bad"})
			warnings = append(warnings, fmt.Sprintf("Key %s expired on %s: OpenTofu warns, or refuses if it is configured to.", k.ID, k.Expires.Format(time.DateOnly)))
		case !k.Expires.IsZero() && k.Expires.Sub(now) < expiresSoon:
			row.Marks = append(row.Marks, site.Mark{Text: "expires soon", Kind: "bad"})
			warnings = append(warnings, fmt.Sprintf("Key %s expires on %s.", k.ID, k.Expires.Format(time.DateOnly)))
		}
		if row.Signed {
			row.Marks = append(row.Marks, site.Mark{Text: "signed this version", Kind: "good"})
		}
		rows = append(rows, row)
	}
	return rows, warnings
}
