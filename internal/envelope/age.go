// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// parseRecipient parses an X25519 or hybrid recipient, which can only seal.
func parseRecipient(s string) (key, error) {
	recipients, err := age.ParseRecipients(bytes.NewReader([]byte(s)))
	if err != nil || len(recipients) != 1 {
		return key{}, fmt.Errorf("age recipient %q is malformed", s)
	}
	return key{
		id:   s,
		wrap: ageWrap(recipients[0]),
		unwrap: func(context.Context, []byte) ([]byte, error) {
			return nil, errors.New("a recipient cannot decrypt, its age identity file is required")
		},
	}, nil
}

// parseIdentities returns one key for each identity of an age key file.
func parseIdentities(b []byte) ([]key, error) {
	identities, err := age.ParseIdentities(bytes.NewReader(b))
	if err != nil {
		return nil, errors.New("age identities are malformed") // the library quotes the line, which is secret
	}
	keys := make([]key, 0, len(identities))
	for _, identity := range identities {
		k := key{unwrap: ageUnwrap(identity)}
		switch i := identity.(type) {
		case *age.X25519Identity:
			k.id = i.Recipient().String()
			k.wrap = ageWrap(i.Recipient())
		case *age.HybridIdentity:
			k.id = i.Recipient().String()
			k.wrap = ageWrap(i.Recipient())
		default:
			return nil, fmt.Errorf("age identity of type %T is not supported", identity)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func ageWrap(r age.Recipient) func(context.Context, []byte) ([]byte, error) {
	return func(_ context.Context, dataKey []byte) ([]byte, error) {
		var out bytes.Buffer
		w, err := age.Encrypt(&out, r)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(dataKey); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		return out.Bytes(), nil
	}
}

func ageUnwrap(i age.Identity) func(context.Context, []byte) ([]byte, error) {
	return func(_ context.Context, wrapped []byte) ([]byte, error) {
		r, err := age.Decrypt(bytes.NewReader(wrapped), i)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(r, dataKeySize+1))
	}
}
