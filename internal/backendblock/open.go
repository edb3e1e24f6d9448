// SPDX-License-Identifier: Apache-2.0

package backendblock

import (
	"strings"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// OpenOptions are settings that apply without a backend block.
type OpenOptions struct {
	Client oci.Options
	// TLS is what Client's transport was made from; other settings get another one.
	TLS   httpserve.TransportOptions
	State statebackend.Options
}

// Open returns the store of a backend block, whose arguments take precedence over o.
func Open(b Backend, o OpenOptions) (*statebackend.Store, error) {
	client, err := b.clientOptions(o)
	if err != nil {
		return nil, err
	}
	client.Actions = []string{"pull", "push", "delete"} // one token for all requests of a run
	r, err := oci.OpenRepo(b.Repository, client)
	if err != nil {
		return nil, err
	}
	s := o.State
	s.Compression = b.Compression
	s.LockTTL = b.LockTTL
	s.Settle = b.LockSettle
	s.MaxVersions = b.MaxVersions
	_, s.Primary, _ = strings.Cut(b.Primary, "/") // without the host
	s.StrictReads = b.StrictReads
	s.UnsafeLocking = b.UnsafeLocking
	if len(b.Encryption) > 0 {
		if s.Sealer, err = b.newEnvelope(); err != nil {
			return nil, err
		}
	}
	return statebackend.New(r, s), nil
}

// Client returns options for a registry. Arguments precede o; contradicting ones are refused.
func (a *Arguments) Client(o OpenOptions) (oci.Options, error) {
	if err := a.checkTransport(); err != nil {
		return oci.Options{}, err
	}
	return a.backend.clientOptions(o)
}

func (b Backend) clientOptions(o OpenOptions) (oci.Options, error) {
	c := o.Client
	c.PlainHTTP = c.PlainHTTP || b.PlainHTTP
	c.Retry = oci.Retry(b.Retry)
	if b.CAFile == "" && !b.Insecure {
		return c, nil
	}
	t := o.TLS
	t.Insecure = t.Insecure || b.Insecure
	if b.CAFile != "" {
		t.CAFile = b.CAFile
	}
	var err error
	c.Transport, err = httpserve.Transport(t)
	return c, err
}

// newEnvelope returns the keys of the encryption blocks.
func (b Backend) newEnvelope() (*envelope.Envelope, error) {
	var keys envelope.Options
	for _, e := range b.Encryption {
		if e.KeyID != "" {
			keys.Keys = append(keys.Keys, e.KeyID)
		}
		if e.Identity != "" {
			keys.Identities = append(keys.Identities, e.Identity)
		}
	}
	return envelope.New(keys)
}
