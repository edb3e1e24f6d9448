// SPDX-License-Identifier: Apache-2.0

package keyless

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
	"golang.org/x/mod/sumdb/tlog"
)

// entry is an entry of a transparency log, Rekor, with what proves that it is there.
type entry struct {
	Index   int64                                 `json:"logIndex,string"`
	Log     logID                                 `json:"logId"`
	Time    int64                                 `json:"integratedTime,string"`
	Promise struct{ SignedEntryTimestamp []byte } `json:"inclusionPromise"`
	Proof   *struct {
		Index      int64 `json:"logIndex,string"`
		Size       int64 `json:"treeSize,string"`
		Hashes     [][]byte
		Checkpoint struct{ Envelope string }
	} `json:"inclusionProof"`
	Body []byte `json:"canonicalizedBody"`
}

// verifyEntry returns when a log promised an entry; zero if it only proves that it has it.
func (r *root) verifyEntry(e *entry, s Signature) (at time.Time, err error) {
	i := slices.IndexFunc(r.Logs, func(l logKey) bool { return bytes.Equal(l.ID.KeyID, e.Log.KeyID) })
	promise := e.Promise.SignedEntryTimestamp
	if i < 0 || e.Proof == nil && len(promise) == 0 {
		return at, errors.New("the log of an entry is not in the trust root, or the entry has no proof")
	}
	if err := checkEntry(e.Body, s); err != nil {
		return at, err
	}
	if len(promise) > 0 {
		promised, err := json.Marshal(struct { // in the order of RFC 8785
			Body  []byte `json:"body"`
			Time  int64  `json:"integratedTime"`
			ID    string `json:"logID"`
			Index int64  `json:"logIndex"`
		}{e.Body, e.Time, hex.EncodeToString(e.Log.KeyID), e.Index})
		at = time.Unix(e.Time, 0)
		if err == nil {
			err = r.Logs[i].verifyByLog(at, promised, promise)
		}
		if err != nil || e.Proof == nil {
			return at, err
		}
	}
	return at, e.checkInclusion(&r.Logs[i])
}

// checkInclusion checks that the entry is below a checkpoint that the log signed: a text of
// origin, size and hash, an empty line, and signatures, perhaps of witnesses as well.
func (e *entry) checkInclusion(log *logKey) error {
	text, signatures, _ := strings.Cut(e.Proof.Checkpoint.Envelope, "\n\n")
	signed := slices.ContainsFunc(strings.Split(signatures, "\n"), func(line string) bool {
		words := strings.Split(line, " ") // a dash, a name, four bytes that identify the key with the signature
		b, err := base64.StdEncoding.DecodeString(words[len(words)-1])
		return err == nil && len(b) > 4 && log.verifyByLog(time.Time{}, []byte(text+"\n"), b[4:]) == nil
	})
	lines := strings.Split(text, "\n")
	if !signed || len(lines) < 3 || lines[1] != fmt.Sprint(e.Proof.Size) {
		return errors.New("the log did not sign the checkpoint")
	}
	proof := tlog.RecordProof{}
	hash, err := tlog.ParseHash(lines[2])
	for _, h := range e.Proof.Hashes {
		if len(h) != tlog.HashSize {
			return errors.New("the proof of inclusion is invalid")
		}
		proof = append(proof, tlog.Hash(h))
	}
	if err == nil {
		err = tlog.CheckRecord(proof, e.Proof.Size, hash, e.Proof.Index, tlog.RecordHash(e.Body))
	}
	return err
}

// checkEntry checks that an entry is about a signature and its certificate. The kinds are those
// of envelopes: dsse and intoto of Rekor 1, hashedrekord of Rekor 2.
func checkEntry(body []byte, s Signature) error {
	type hash struct{ Value string }
	var doc struct {
		Kind, APIVersion string
		Spec             struct {
			PayloadHash hash
			Signatures  []struct{ Signature, Verifier []byte }
			Content     struct {
				PayloadHash hash
				Envelope    struct {
					Signatures []struct{ Sig, PublicKey []byte }
				}
			}
			HashedRekordV002 struct {
				Data      struct{ Digest []byte }
				Signature struct {
					Content  []byte
					Verifier struct{ X509Certificate struct{ RawBytes []byte } }
				}
			}
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return fmt.Errorf("entry: %w", err)
	}
	in := &doc.Spec
	about, digest := sha256.Sum256(s.Payload), in.PayloadHash.Value
	var signature, text, der []byte
	switch kind := doc.Kind + " " + doc.APIVersion; {
	case kind == "dsse 0.0.1" && len(in.Signatures) == 1:
		signature, text = in.Signatures[0].Signature, in.Signatures[0].Verifier
	case kind == "intoto 0.0.2" && len(in.Content.Envelope.Signatures) == 1:
		one := in.Content.Envelope.Signatures[0]
		digest, text = in.Content.PayloadHash.Value, one.PublicKey
		signature, _ = base64.StdEncoding.DecodeString(string(one.Sig)) // encoded twice
	case kind == "hashedrekord 0.0.2":
		about, digest = sha256.Sum256(s.Envelope), hex.EncodeToString(in.HashedRekordV002.Data.Digest)
		signature, der = in.HashedRekordV002.Signature.Content, in.HashedRekordV002.Signature.Verifier.X509Certificate.RawBytes
	default:
		return fmt.Errorf("log entries of kind %q are not supported", kind)
	}
	if block, _ := pem.Decode(text); block != nil {
		der = block.Bytes
	}
	if digest != hex.EncodeToString(about[:]) || !bytes.Equal(signature, s.Bytes) || !bytes.Equal(der, s.leaf.Raw) {
		return errors.New("the log entry is for another signature")
	}
	return nil
}

// verifyTimestamp returns the time in the response of a timestamp authority about a signature.
func (r *root) verifyTimestamp(response, signature []byte) (at time.Time, err error) {
	stamp, err := timestamp.ParseResponse(response)
	if err != nil {
		return at, err
	}
	if !stamp.HashAlgorithm.Available() || stamp.HashAlgorithm.Size() < sha256.Size {
		return at, errors.New("the timestamp uses a weak hash")
	}
	h := stamp.HashAlgorithm.New()
	h.Write(signature)
	if !bytes.Equal(h.Sum(nil), stamp.HashedMessage) {
		return at, errors.New("the timestamp is for another signature")
	}
	for i := range r.Clocks {
		if r.Clocks[i].verifyToken(stamp.RawToken, stamp.Time) == nil {
			return stamp.Time, nil
		}
	}
	return at, errors.New("the authority of the timestamp is not in the trust root")
}

func (a *authority) verifyToken(token []byte, at time.Time) error {
	p7, err := pkcs7.Parse(token)
	if err != nil {
		return err
	}
	p7.Certificates = a.Chain[:1] // not those that the token brings along
	if err := p7.Verify(); err != nil {
		return err
	}
	if p7.GetOnlySigner() == nil || a.Chain[0].IsCA {
		return errors.New("not signed by exactly one authority")
	}
	_, err = a.verifyChain(a.Chain[0], at, x509.ExtKeyUsageTimeStamping)
	return err
}
