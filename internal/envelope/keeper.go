// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"gocloud.dev/secrets"
	_ "gocloud.dev/secrets/awskms"        // registers awskms://
	_ "gocloud.dev/secrets/azurekeyvault" // registers azurekeyvault://
	_ "gocloud.dev/secrets/gcpkms"        // registers gcpkms://
	_ "gocloud.dev/secrets/hashivault"    // registers hashivault://
	"gocloud.dev/secrets/localsecrets"
)

// parseKeeper parses a key service's URL; it is contacted only to wrap or unwrap.
func parseKeeper(reference string) (key, error) {
	u, err := url.Parse(reference)
	if err != nil {
		return key{}, errors.New("key reference is not a URL") // the text may hold a secret
	}
	if !secrets.DefaultURLMux().ValidKeeperScheme(u.Scheme) {
		return key{}, fmt.Errorf("unknown scheme %q of the key reference; expected awskms, azurekeyvault, base64key, file, gcpkms, hashivault", u.Scheme)
	}
	if u.User != nil {
		return key{}, fmt.Errorf("key reference %s contains a user name or password", u.Redacted())
	}
	id := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	return key{
		id: id,
		wrap: func(ctx context.Context, dataKey []byte) ([]byte, error) {
			return withKeeper(ctx, reference, func(k *secrets.Keeper) ([]byte, error) { return k.Encrypt(ctx, dataKey) })
		},
		unwrap: func(ctx context.Context, wrapped []byte) ([]byte, error) {
			return withKeeper(ctx, reference, func(k *secrets.Keeper) ([]byte, error) { return k.Decrypt(ctx, wrapped) })
		},
	}, nil
}

func withKeeper(ctx context.Context, reference string, do func(*secrets.Keeper) ([]byte, error)) ([]byte, error) {
	k, err := secrets.OpenKeeper(ctx, reference)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	return do(k)
}

// parseBase64Key parses base64key://KEY. For an empty KEY the library would take a random one.
func parseBase64Key(encoded string) (key, error) {
	if encoded == "" {
		return key{}, errors.New("base64key:// has no key")
	}
	secret, ok := decodeSecret([]byte(encoded))
	if !ok {
		return key{}, errors.New("base64key:// must contain 32 bytes in base64")
	}
	keeper := localsecrets.NewKeeper([dataKeySize]byte(secret))
	return key{
		id:     "base64key:" + keyFingerprint(secret),
		wrap:   keeper.Encrypt,
		unwrap: keeper.Decrypt,
	}, nil
}
