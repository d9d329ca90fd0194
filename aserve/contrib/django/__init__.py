"""`manage.py runaserve`: INSTALLED_APPS += ["aserve.contrib.django"]."""
