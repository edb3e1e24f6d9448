module rsc.io/letsencrypt
