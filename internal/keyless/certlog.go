// SPDX-License-Identifier: Apache-2.0

package keyless

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"slices"
	"time"

	"golang.org/x/crypto/cryptobyte"
)

// verifyLogged checks that a certificate log of the trust root recorded the first certificate of
// the chains, by the signatures that an extension of it has (RFC 6962, 3.3).
func (r *root) verifyLogged(chains [][]*x509.Certificate) error {
	proofs, without, err := splitProofs(chains[0][0].RawTBSCertificate)
	if err != nil {
		return errors.New("it has no proof from a certificate log")
	}
	for !proofs.Empty() {
		var proof, id, extensions, signature cryptobyte.String
		var version uint8
		var at uint64
		if !proofs.ReadUint16LengthPrefixed(&proof) || !proof.ReadUint8(&version) || !proof.ReadBytes((*[]byte)(&id), sha256.Size) || !proof.ReadUint64(&at) ||
			!proof.ReadUint16LengthPrefixed(&extensions) || !proof.Skip(2) || !proof.ReadUint16LengthPrefixed(&signature) {
			break
		}
		for _, log := range r.CertLogs {
			for _, chain := range chains {
				if version == 0 && bytes.Equal(log.ID.KeyID, id) && len(chain) > 1 &&
					log.verifyByLog(time.UnixMilli(int64(at)), signedByLog(at, chain[1], without, extensions), signature) == nil {
					return nil
				}
			}
		}
	}
	return errors.New("it is in no certificate log of the trust root")
}

// signedByLog is what a log signs of a certificate before the log's signatures are in it (RFC 6962, 3.2).
func signedByLog(at uint64, issuer *x509.Certificate, certificate, extensions []byte) []byte {
	key := sha256.Sum256(issuer.RawSubjectPublicKeyInfo)
	var b cryptobyte.Builder
	b.AddUint16(0) // version 1, about a certificate
	b.AddUint64(at)
	b.AddUint16(1) // that is not complete
	b.AddBytes(key[:])
	b.AddUint24LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(certificate) })
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(extensions) })
	return b.BytesOrPanic() // lengths of parts of a bundle, which is small
}

// splitProofs returns the signatures of certificate logs in a certificate, and it without them.
func splitProofs(tbs []byte) (proofs cryptobyte.String, without []byte, err error) {
	var fields []asn1.RawValue
	var all []pkix.Extension
	var octets []byte
	if _, err = asn1.Unmarshal(tbs, &fields); err == nil {
		_, err = asn1.Unmarshal(fields[len(fields)-1].Bytes, &all)
	}
	isProof := func(x pkix.Extension) bool {
		return x.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2})
	}
	i := slices.IndexFunc(all, isProof)
	if err != nil || i < 0 {
		return nil, nil, errors.New("none")
	}
	_, err = asn1.Unmarshal(all[i].Value, &octets)
	if list := cryptobyte.String(octets); err != nil || !list.ReadUint16LengthPrefixed(&proofs) {
		return nil, nil, errors.New("it is not a list")
	}
	kept, err := asn1.Marshal(slices.DeleteFunc(all, isProof))
	last := &fields[len(fields)-1]
	*last = asn1.RawValue{Class: last.Class, Tag: last.Tag, IsCompound: true, Bytes: kept}
	if err == nil {
		without, err = asn1.Marshal(fields)
	}
	return proofs, without, err
}
