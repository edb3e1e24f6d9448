// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	sigstore "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/testing/data"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/seed-141914ff/okara/internal/keyless"
	"github.com/seed-141914ff/okara/internal/must"
)

const (
	workflow = "https://github.com/acme/vpc/.github/workflows/release.yml@refs/tags/v1.0.0"
	issuer   = "https://token.actions.githubusercontent.com"
)

// judged is a bundle with the trust root by which sigstore-go and okara judge it.
type judged struct {
	bundle, root     []byte
	identity, issuer string
	options          []verify.VerifierOption
}

// TestKeyless: okara accepts what sigstore-go 1.3.0 accepts, of its test authority and of the public one, and
// nothing that it refuses: each value of bundle and trust root is changed, or taken away, by itself.
func TestKeyless(t *testing.T) {
	seen := []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1)}
	vs := must.Get(ca.NewVirtualSigstore())(t)
	logs := vs.RekorLogs()
	for id, log := range logs {
		log.ID = must.Get(hex.DecodeString(id))(t)
	}
	trusted := must.Get(must.Get(root.NewTrustedRoot(root.TrustedRootMediaType01, vs.FulcioCertificateAuthorities(), nil, vs.TimestampingAuthorities(), logs))(t).MarshalJSON())(t)
	statement := fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"%064d"}}],"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}}`, 0)
	at := time.Now().Add(5 * time.Minute)
	tests := map[string]judged{"the public authority": {
		bundle: must.Get(data.Bundle(t, "sigstore.js@2.0.0-provenance.sigstore.json").MarshalJSON())(t), root: must.Get(data.TrustedRoot(t, "public-good.json").MarshalJSON())(t),
		identity: "https://github.com/sigstore/sigstore-js/*", issuer: issuer, options: append(seen, verify.WithSignedCertificateTimestamps(1)),
	}}
	for name, entity := range map[string]*ca.TestEntity{
		"Rekor 1, a promise":  must.Get(vs.AttestAtTime(workflow, issuer, statement, at, false))(t),
		"Rekor 2, timestamps": must.Get(vs.AttestHashedRekordV2(workflow, issuer, statement))(t),
	} {
		tests[name] = judged{bundle: bundleOf(t, vs, entity), root: trusted, identity: workflow, issuer: issuer, options: seen}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if theirs, ours := tt.judge(t); theirs != nil || ours != nil {
				t.Fatalf("sigstore-go: %v, okara: %v", theirs, ours)
			}
			for _, other := range []judged{{identity: tt.identity + "x", issuer: tt.issuer}, {identity: tt.identity, issuer: tt.issuer + "x"}} {
				other.bundle, other.root = tt.bundle, tt.root
				if _, ours := other.judge(t); ours == nil {
					t.Errorf("accepted as %s by %s", other.identity, other.issuer)
				}
			}
			refused := 0
			for _, document := range []*[]byte{&tt.bundle, &tt.root} {
				whole := *document
				for where, changed := range changes(t, whole) {
					*document = changed
					theirs, ours := tt.judge(t)
					if theirs != nil && ours == nil && !onlyForm.MatchString(where) {
						t.Errorf("%s: okara accepts, sigstore-go says %v", where, theirs)
					}
					if ours != nil {
						refused++
					}
				}
				*document = whole
			}
			if t.Logf("%d changes are refused", refused); refused < 10 {
				t.Error("they change nothing that counts")
			}
		})
	}
	if dir := os.Getenv("OKARA_UPDATE"); dir != "" { // fixtures of internal/trust
		about := must.Get(os.ReadFile("../trust/testdata/sign.json"))(t)
		var envelope struct{ DsseEnvelope struct{ Payload []byte } }
		must.Succeed(t, json.Unmarshal(about, &envelope))
		made := bundleOf(t, vs, must.Get(vs.AttestHashedRekordV2(workflow, issuer, envelope.DsseEnvelope.Payload))(t))
		must.Succeed(t, os.WriteFile("../trust/testdata/keyless.json", made, 0o644))
		must.Succeed(t, os.WriteFile("../trust/testdata/trusted_root.json", trusted, 0o644))
	}
}

// onlyForm matches what sigstore-go wants besides: values that follow from others or are not signed, algorithms that
// keys have by themselves, and what a trust root without logs does not ask for.
var onlyForm = regexp.MustCompile(`hashAlgorithm|keyDetails|mediaType|rootHash|kindVersion|baseUrl|validFor(.start)? gone|^.(ct|t)logs( |.* gone)|integratedTime`)

// judge returns what sigstore-go and okara say.
func (j judged) judge(t *testing.T) (theirs, ours error) {
	theirs = func() error {
		material, err := root.NewTrustedRootFromJSON(j.root)
		if err != nil {
			return err
		}
		var b sigstore.Bundle
		if err := b.UnmarshalJSON(j.bundle); err != nil {
			return err
		}
		verifier, err := verify.NewVerifier(material, j.options...)
		if err != nil {
			return err
		}
		glob := "^" + strings.ReplaceAll(strings.ReplaceAll(j.identity, ".", "[.]"), "*", ".*") + "$"
		identity, err := verify.NewShortCertificateIdentity(j.issuer, "", "", glob)
		if err != nil {
			return err
		}
		_, err = verifier.Verify(&b, verify.NewPolicy(verify.WithoutArtifactUnsafe(), verify.WithCertificateIdentity(identity)))
		return err
	}()
	var doc struct {
		VerificationMaterial json.RawMessage
		DsseEnvelope         struct {
			Payload     []byte
			PayloadType string
			Signatures  []struct{ Sig []byte }
		}
	}
	file := filepath.Join(t.TempDir(), "root.json")
	must.Succeed(t, os.WriteFile(file, j.root, 0o600))
	if err := json.Unmarshal(j.bundle, &doc); err != nil || len(doc.DsseEnvelope.Signatures) != 1 {
		return theirs, fmt.Errorf("no signature: %v", err)
	}
	trust, err := keyless.ReadTrust(file, []string{j.identity}, j.issuer)
	if err != nil {
		return theirs, err
	}
	e := doc.DsseEnvelope
	_, err = trust.Verify(keyless.Signature{
		Material: doc.VerificationMaterial, Payload: e.Payload, Bytes: e.Signatures[0].Sig,
		Envelope: fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload),
	})
	return theirs, err
}

func bundleOf(t *testing.T, vs *ca.VirtualSigstore, e *ca.TestEntity) []byte {
	t.Helper()
	of := must.Get(e.VerificationContent())(t)
	signature := must.Get(e.SignatureContent())(t)
	raw := signature.EnvelopeContent().RawEnvelope()
	certificate := &protocommon.X509Certificate{RawBytes: of.Certificate().Raw}
	material := &protobundle.VerificationMaterial{
		Content: &protobundle.VerificationMaterial_Certificate{Certificate: certificate}, TimestampVerificationData: &protobundle.TimestampVerificationData{},
	}
	form := "application/vnd.dev.sigstore.bundle.v0.3+json"
	for _, entry := range must.Get(e.TlogEntries())(t) {
		logged := entry.TransparencyLogEntry()
		if entry.HasInclusionPromise() { // which it keeps for itself
			signed := tlog.RekorPayload{Body: entry.Body(), IntegratedTime: logged.IntegratedTime, LogIndex: logged.LogIndex, LogID: hex.EncodeToString(logged.LogId.KeyId)}
			logged.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: must.Get(vs.RekorSignPayload(signed))(t)}
			logged.KindVersion = &protorekor.KindVersion{Kind: "dsse", Version: "0.0.1"}
			form = "application/vnd.dev.sigstore.bundle+json;version=0.1"
			material.Content = &protobundle.VerificationMaterial_X509CertificateChain{X509CertificateChain: &protocommon.X509CertificateChain{Certificates: []*protocommon.X509Certificate{certificate}}}
		}
		material.TlogEntries = append(material.TlogEntries, logged)
	}
	for _, stamp := range must.Get(e.Timestamps())(t) {
		material.TimestampVerificationData.Rfc3161Timestamps = append(material.TimestampVerificationData.Rfc3161Timestamps, &protocommon.RFC3161SignedTimestamp{SignedTimestamp: stamp})
	}
	b := must.Get(sigstore.NewBundle(&protobundle.Bundle{
		MediaType: form, VerificationMaterial: material,
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			PayloadType: raw.PayloadType, Payload: must.Get(base64.StdEncoding.DecodeString(raw.Payload))(t), Signatures: []*protodsse.Signature{{Sig: signature.Signature()}},
		}},
	}))(t)
	return must.Get(b.MarshalJSON())(t)
}

// changes returns copies of a document of which one value each is other bytes, another number or gone.
func changes(t *testing.T, document []byte) map[string][]byte {
	var doc any
	must.Succeed(t, json.Unmarshal(document, &doc))
	all := map[string][]byte{}
	keep := func(where string) { all[where] = must.Get(json.Marshal(doc))(t) }
	var walk func(at any, where string, put func(any))
	walk = func(at any, where string, put func(any)) {
		switch at := at.(type) {
		case map[string]any:
			for name, v := range at {
				delete(at, name)
				keep(where + "." + name + " gone")
				at[name] = v
				walk(v, where+"."+name, func(v any) { at[name] = v })
			}
		case []any:
			for i, v := range at {
				walk(v, fmt.Sprintf("%s[%d]", where, i), func(v any) { at[i] = v })
			}
		case string:
			for _, i := range []int{0, len(at) / 3, len(at) / 2, len(at) - 5} {
				if i >= 0 && i < len(at) {
					put(at[:i] + map[bool]string{true: "1", false: "A"}[at[i] == 'A' || at[i] >= '0' && at[i] <= '9' && at[i] != '1'] + at[i+1:])
					keep(fmt.Sprintf("%s at %d", where, i))
				}
			}
			put(at)
		}
	}
	walk(doc, "", nil)
	return all
}
